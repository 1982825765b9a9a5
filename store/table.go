package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/table"

	"shardkv/internal/wire"
)

// A table file of Badger (table/builder.go): blocks, index, index length,
// checksum of the index, length of that. We read it ourselves, because Badger's
// own check maps the whole file, panics where a footer is cut, and takes a block
// that fails its checksum for the end of the table.
const maxTableIndex = 256 << 20 // bytes

// tableIndex is the checked index of a table file.
type tableIndex struct {
	*fb.TableIndex
	size int64 // of the file
}

func tablePath(dir string, id uint64) string { return table.NewFilename(id, dir) }

// readTableIndex reads and checks the index at the end of a table file.
func readTableIndex(f *os.File) (tableIndex, error) {
	info, err := f.Stat()
	if err != nil {
		return tableIndex{}, err
	}
	end := info.Size()
	back := func(n int64) ([]byte, error) { // the n bytes before end
		if n < 0 || n > end || n > maxTableIndex {
			return nil, errors.New("is cut short or its footer is damaged")
		}
		end -= n
		p := make([]byte, n)
		_, err := f.ReadAt(p, end)
		return p, err
	}
	var p, sum, index []byte
	for _, step := range []func(){
		func() { p, err = back(4) },
		func() { sum, err = back(int64(binary.BigEndian.Uint32(p))) },
		func() { p, err = back(4) },
		func() { index, err = back(int64(binary.BigEndian.Uint32(p))) },
		func() { err = checkSum(index, sum) },
		func() {
			if len(index) < 8 { // nothing has the sum of nothing
				err = errors.New("is empty")
			}
		},
	} {
		if step(); err != nil {
			return tableIndex{}, fmt.Errorf("table index: %w", err)
		}
	}
	return tableIndex{fb.GetRootAsTableIndex(index, 0), info.Size()}, nil
}

// checkSum compares data with a Badger checksum message: field 1 the algorithm
// (absent or 0: CRC32C), field 2 the sum.
func checkSum(data, message []byte) error {
	var algorithm, sum uint64
	for r := wire.NewReader(message); r.Len() > 0; {
		tag, v := r.Byte(), r.Uvarint()
		switch tag {
		case 1 << 3:
			algorithm = v
		case 2 << 3:
			sum = v
		default:
			return errors.New("unreadable checksum")
		}
		if r.Err() != nil {
			return errors.New("unreadable checksum")
		}
	}
	if algorithm != 0 || uint64(crc32.Checksum(data, castagnoli)) != sum {
		return errors.New("wrong checksum")
	}
	return nil
}

// checkBlock checks one block: data, then the length of its checksum at the end.
func checkBlock(b []byte) error {
	if len(b) < 4 {
		return errors.New("short block")
	}
	n := len(b) - 4
	length := int64(binary.BigEndian.Uint32(b[n:]))
	if length > int64(n) {
		return errors.New("wrong checksum length")
	}
	return checkSum(b[:n-int(length)], b[n-int(length):n])
}

// checkTable reads a table file and checks every block, pacing itself. A file
// that Badger deleted meanwhile is fine: fs.ErrNotExist.
func checkTable(ctx context.Context, path string, pace *pacer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	fault := func(err error) error {
		if info, serr := os.Stat(path); errors.Is(serr, fs.ErrNotExist) || serr == nil && info.Size() == 0 {
			return fs.ErrNotExist // compacted away while we read it; Badger cuts before it removes
		}
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	index, err := readTableIndex(f)
	if err != nil {
		return fault(err)
	}
	var at fb.BlockOffset
	var buf []byte
	for i := range index.OffsetsLength() {
		if !index.Offsets(&at, i) {
			return fault(fmt.Errorf("no block %d", i))
		}
		n := int(at.Len())
		if int64(at.Offset())+int64(n) > index.size {
			return fault(fmt.Errorf("block %d lies behind the end", i))
		}
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(io.NewSectionReader(f, int64(at.Offset()), int64(n)), buf[:n]); err != nil {
			return fault(err)
		}
		if err := checkBlock(buf[:n]); err != nil {
			return fault(fmt.Errorf("block %d: %w", i, err))
		}
		if err := pace.spend(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// pacer keeps a reader to a rate. The zero value does not.
type pacer struct {
	bytesPerSecond int64
	owed           int64
}

// paceStep is how many bytes go between two pauses.
const paceStep = 1 << 20

func (p *pacer) spend(ctx context.Context, n int) error {
	if p.owed += int64(n); p.owed < paceStep {
		return nil
	}
	owed := p.owed
	p.owed = 0
	if p.bytesPerSecond <= 0 {
		return ctx.Err()
	}
	pause := time.NewTimer(time.Duration(float64(owed) / float64(p.bytesPerSecond) * float64(time.Second)))
	defer pause.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-pause.C:
		return nil
	}
}
