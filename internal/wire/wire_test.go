package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	b := []byte{7}
	b = AppendBool(b, true)
	b = binary.BigEndian.AppendUint16(b, 0xBEEF)
	b = binary.BigEndian.AppendUint32(b, 0xDEADBEEF)
	b = binary.BigEndian.AppendUint64(b, 1<<63)
	b = binary.AppendUvarint(b, 300)
	b = binary.AppendVarint(b, -300)
	b = AppendBytes(b, []byte{0, 255})
	b = AppendString(b, "shard")
	r := NewReader(b)
	r.Version(7, "message")
	if !r.Bool() || r.Uint16() != 0xBEEF || r.Uint32() != 0xDEADBEEF || r.Uint64() != 1<<63 ||
		r.Uvarint() != 300 || r.Varint() != -300 || !bytes.Equal(r.Bytes(), []byte{0, 255}) || r.String() != "shard" {
		t.Fatal("values changed on the way")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFaultsStick(t *testing.T) {
	for name, read := range map[string]func(*Reader){
		"version":   func(r *Reader) { r.Version(2, "message") },
		"bool":      func(r *Reader) { r.Byte(); r.Bool() },
		"early end": func(r *Reader) { r.Uint64() },
		"count":     func(r *Reader) { r.Byte(); r.Count(4) },
		"left over": func(*Reader) {},
	} {
		r := NewReader([]byte{1, 9, 0})
		read(r)
		first := r.Close()
		if !errors.Is(first, ErrMalformed) {
			t.Errorf("%s: %v", name, first)
		}
		r.Uvarint()
		if r.Close() != first {
			t.Errorf("%s: the first fault did not stick", name)
		}
	}
}

// FuzzReader holds the reader to its promise: no panic, and never more bytes
// handed out than came in.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3}, []byte{5, 3, 3, 0xff})
	f.Fuzz(func(t *testing.T, ops, data []byte) {
		r, out := NewReader(data), 0
		for _, op := range ops {
			switch op % 9 {
			case 0:
				r.Byte()
			case 1:
				r.Bool()
			case 2:
				r.Uint16()
			case 3:
				r.Uint32()
			case 4:
				r.Uint64()
			case 5:
				r.Uvarint()
			case 6:
				r.Varint()
			case 7:
				out += len(r.Bytes())
			case 8:
				if n := r.Count(2); n*2 > len(data) {
					t.Fatalf("count %d of %d bytes", n, len(data))
				}
			}
		}
		if out > len(data) {
			t.Fatalf("%d bytes out of %d", out, len(data))
		}
	})
}
