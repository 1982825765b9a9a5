package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"shardkv/internal/failpoint"
	"shardkv/internal/wire"
)

// A stream of rows: magic, version, frames. A frame is its kind, the length of
// its body (uvarint), the body, and the CRC32C of everything up to there since
// the start of the stream, so no frame can be lost, doubled or exchanged. The
// first frame is the meta, the last the number of rows.
const (
	streamMagic   = "skvrows"
	streamVersion = 1

	frameMeta byte = 'm'
	frameRows byte = 'r'
	frameEnd  byte = 'e'

	frameTarget = 256 << 10 // bytes after which a frame of rows is sent
	maxFrame    = frameTarget + MaxRowKey + MaxRowValue + 64
)

// Export writes the rows at the last committed index: a checksummed stream that
// Install reads. It holds a view meanwhile, and one frame in memory.
func (s *Store) Export(w io.Writer) (Meta, error) {
	s.busy.RLock()
	defer s.busy.RUnlock()
	v, m, err := s.viewMeta()
	if err != nil {
		return Meta{}, fmt.Errorf("store: export: %w", err)
	}
	defer v.Close()
	out := &frameWriter{w: w}
	out.raw(append([]byte(streamMagic), streamVersion))
	out.frame(frameMeta, m.append(nil))
	var rows uint64
	buf := make([]byte, 0, frameTarget)
	v.Scan(nil, nil, func(row, value []byte) bool {
		buf = wire.AppendBytes(wire.AppendBytes(buf, row), value)
		rows++
		if len(buf) >= frameTarget {
			out.frame(frameRows, buf)
			buf = buf[:0]
		}
		return out.err == nil
	})
	if len(buf) > 0 {
		out.frame(frameRows, buf)
	}
	if err := errors.Join(v.Err(), out.err); err != nil {
		return Meta{}, fmt.Errorf("store: export: %w", err) // without an end: nobody takes it for whole
	}
	out.frame(frameEnd, binary.AppendUvarint(nil, rows))
	if out.err != nil {
		return Meta{}, fmt.Errorf("store: export: %w", out.err)
	}
	return m, nil
}

// viewMeta pins the last committed index and returns its meta.
func (s *Store) viewMeta() (*View, Meta, error) {
	for {
		m := s.Meta()
		v, err := s.ViewAt(m.Index)
		if err == nil || s.Err() != nil {
			return v, m, err
		}
		// Committed and checkpointed past it in between: take the newer one.
		if s.Meta().Index == m.Index {
			return nil, Meta{}, err
		}
	}
}

type frameWriter struct {
	w   io.Writer
	sum uint32
	err error
}

func (o *frameWriter) raw(b []byte) {
	o.sum = crc32.Update(o.sum, castagnoli, b)
	if o.err == nil {
		_, o.err = o.w.Write(b)
	}
}

func (o *frameWriter) frame(kind byte, body []byte) {
	o.raw(binary.AppendUvarint([]byte{kind}, uint64(len(body))))
	o.raw(body)
	if o.err == nil {
		_, o.err = o.w.Write(binary.BigEndian.AppendUint32(nil, o.sum))
	}
}

// frameReader reads what frameWriter wrote, one frame in memory.
type frameReader struct {
	r   *bufio.Reader
	sum uint32
	buf []byte
}

func newFrameReader(r io.Reader) (*frameReader, error) {
	in := &frameReader{r: bufio.NewReaderSize(r, 64<<10)}
	head, err := in.raw(len(streamMagic) + 1)
	switch {
	case err != nil:
		return nil, err
	case string(head[:len(streamMagic)]) != streamMagic:
		return nil, errors.New("not a stream of rows")
	case head[len(streamMagic)] != streamVersion:
		return nil, fmt.Errorf("stream of rows has format version %d, this program knows %d", head[len(streamMagic)], streamVersion)
	}
	return in, nil
}

// raw reads n bytes into the sum; they are valid until the next call.
func (in *frameReader) raw(n int) ([]byte, error) {
	if cap(in.buf) < n {
		in.buf = make([]byte, n)
	}
	p := in.buf[:n]
	if _, err := io.ReadFull(in.r, p); err != nil {
		return nil, cut(err)
	}
	in.sum = crc32.Update(in.sum, castagnoli, p)
	return p, nil
}

// cut names an end that comes too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// next returns the next frame; its body is valid until the next call.
func (in *frameReader) next() (kind byte, body []byte, err error) {
	p, err := in.raw(1)
	if err != nil {
		return 0, nil, err
	}
	kind = p[0]
	var head [binary.MaxVarintLen64]byte
	n := 0
	for n == 0 || head[n-1] >= 0x80 {
		if n == len(head) {
			return 0, nil, errors.New("bad frame length")
		}
		if p, err = in.raw(1); err != nil {
			return 0, nil, err
		}
		head[n], n = p[0], n+1
	}
	size, _ := binary.Uvarint(head[:n])
	if size > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes, limit %d", size, maxFrame)
	}
	if body, err = in.raw(int(size)); err != nil {
		return 0, nil, err
	}
	var sum [4]byte
	if _, err := io.ReadFull(in.r, sum[:]); err != nil {
		return 0, nil, cut(err)
	}
	if binary.BigEndian.Uint32(sum[:]) != in.sum {
		return 0, nil, errors.New("wrong checksum")
	}
	return kind, body, nil
}

// Install replaces everything by what Export wrote: into a new directory,
// checked, made durable, then switched to at once. On an error nothing changed.
// Views opened before go on reading the old rows until they are closed. It also
// mends a damaged store.
func (s *Store) Install(r io.Reader) error {
	s.busy.RLock()
	defer s.busy.RUnlock()
	old := s.db.Load()
	if errors.Is(old.fault(), ErrClosed) {
		return ErrClosed
	}
	name, err := nextName(s.conf.Dir)
	if err != nil {
		return fmt.Errorf("store: install: %w", err)
	}
	dir := filepath.Join(s.conf.Dir, name)
	db, err := openDatabase(context.Background(), dir, s.conf, nil)
	if err == nil {
		if err = s.load(db, r); err == nil {
			s.reach("loaded")
			failpoint.Hit("store.install.loaded")
			_, err = db.checkpoint()
		}
		if err != nil {
			err = errors.Join(err, db.close())
		}
	}
	if err != nil {
		return errors.Join(fmt.Errorf("store: install: %w", err), os.RemoveAll(dir))
	}
	s.reach("durable")
	failpoint.Hit("store.install.durable")
	if err := setCurrent(s.conf.Dir, name); err != nil {
		// It may have happened or not; both generations are whole, and a restart
		// finds the one that CURRENT names.
		err = fmt.Errorf("store: install: %w", err)
		old.fail(err)
		return errors.Join(err, db.close())
	}
	s.reach("switched")
	failpoint.Hit("store.install.switched")
	s.db.Store(db)
	old.retire()
	s.old.Go(old.closeAndRemove)
	return nil
}

func (s *Store) reach(stage string) {
	if s.stage != nil {
		s.stage(stage)
	}
}

// load fills a new database from a stream.
func (s *Store) load(db *database, r io.Reader) error {
	in, err := newFrameReader(r)
	if err != nil {
		return err
	}
	kind, body, err := in.next()
	if err != nil {
		return err
	}
	if kind != frameMeta {
		return fmt.Errorf("stream begins with frame %q", kind)
	}
	head := wire.NewReader(body)
	m := readMeta(head)
	if err := head.Close(); err != nil {
		return err
	}
	var rows uint64
	for {
		if err := room(s.conf.Dir, s.conf.ReserveBytes); err != nil {
			return err
		}
		kind, body, err := in.next()
		switch {
		case err != nil:
			return err
		case kind == frameRows:
			n, err := loadRows(db, m, body)
			if err != nil {
				return err
			}
			rows += n
			s.reach("rows")
			failpoint.Hit("store.install.rows")
		case kind == frameEnd:
			end := wire.NewReader(body)
			if want := end.Uvarint(); end.Close() != nil || want != rows {
				return fmt.Errorf("stream of %d rows ends after %d", want, rows)
			}
			if rows == 0 && m.Index > 0 {
				if err := db.install(m, nil); err != nil {
					return err
				}
			}
			db.reset(m)
			return nil
		default:
			return fmt.Errorf("frame of unknown kind %q", kind)
		}
	}
}

// loadRows commits the rows of one frame at the stream's index.
func loadRows(db *database, m Meta, body []byte) (n uint64, err error) {
	if m.Index == 0 {
		return 0, errors.New("rows at index 0")
	}
	body = append([]byte(nil), body...) // kept until the commit
	r := wire.NewReader(body)
	var writes []write
	for r.Len() > 0 {
		w := write{row: r.Bytes(), value: r.Bytes()}
		if r.Err() != nil {
			return n, r.Err()
		}
		if err := checkRow(w.row, w.value); err != nil {
			return n, err
		}
		writes = append(writes, w)
		n++
	}
	return n, db.install(m, writes)
}

// install writes rows of a stream straight into Badger.
func (db *database) install(m Meta, writes []write) error {
	db.spilling.Lock()
	defer db.spilling.Unlock()
	return db.commit(m, writes)
}
