package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is wrapped by every error of a Reader.
var ErrMalformed = errors.New("malformed message")

// AppendBytes appends p preceded by its length as a uvarint.
func AppendBytes(b, p []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	return append(b, p...)
}

// AppendString appends s preceded by its length as a uvarint.
func AppendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// AppendBool appends one byte, 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// Reader takes values off the front of a byte slice. The zero value of each
// type is returned once a read has failed; check Err or Close at the end.
type Reader struct {
	rest []byte
	err  error
}

// NewReader returns a Reader of b. The slices it hands out alias b.
func NewReader(b []byte) *Reader { return &Reader{rest: b} }

// Err returns the first fault, or nil.
func (r *Reader) Err() error { return r.err }

// Len returns the number of bytes not yet read, in bytes.
func (r *Reader) Len() int { return len(r.rest) }

// Close returns the first fault, or one if bytes are left over.
func (r *Reader) Close() error {
	if r.err == nil && len(r.rest) != 0 {
		r.Fail("%d bytes left over", len(r.rest))
	}
	return r.err
}

// Fail records a fault that the caller found; only the first one is kept.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
	r.rest = nil
}

// Version reads one byte and faults unless it is want; what names the message.
func (r *Reader) Version(want byte, what string) {
	if v := r.Byte(); r.err == nil && v != want {
		r.Fail("%s has format version %d, this program knows %d", what, v, want)
	}
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.rest) < 1 {
		r.Fail("ends early")
		return 0
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v
}

// Bool reads one byte that must be 0 or 1.
func (r *Reader) Bool() bool {
	v := r.Byte()
	if v > 1 {
		r.Fail("bool of value %d", v)
	}
	return v == 1
}

// Uint16 reads two bytes, big endian.
func (r *Reader) Uint16() uint16 {
	p := r.Take(2)
	if p == nil {
		return 0
	}
	return binary.BigEndian.Uint16(p)
}

// Uint32 reads four bytes, big endian.
func (r *Reader) Uint32() uint32 {
	p := r.Take(4)
	if p == nil {
		return 0
	}
	return binary.BigEndian.Uint32(p)
}

// Uint64 reads eight bytes, big endian.
func (r *Reader) Uint64() uint64 {
	p := r.Take(8)
	if p == nil {
		return 0
	}
	return binary.BigEndian.Uint64(p)
}

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.Fail("bad varint")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Varint reads a signed (zig-zag) varint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.Fail("bad varint")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Count reads a uvarint that announces that many items of at least min bytes
// each, and faults if the rest of the input cannot hold them; so a caller may
// allocate for the count. min is at least 1.
func (r *Reader) Count(min int) int {
	v := r.Uvarint()
	if v > uint64(len(r.rest)/max(min, 1)) {
		r.Fail("announces %d items in %d bytes", v, len(r.rest))
		return 0
	}
	return int(v)
}

// Take returns the next n bytes, aliasing the input; nil on a fault.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.Fail("ends early")
		return nil
	}
	p := r.rest[:n:n]
	r.rest = r.rest[n:]
	return p
}

// Bytes reads a length-prefixed byte string, aliasing the input. It is not nil
// unless the read failed.
func (r *Reader) Bytes() []byte { return r.Take(r.Count(1)) }

// String reads a length-prefixed string.
func (r *Reader) String() string { return string(r.Bytes()) }

// Rest returns all that is left.
func (r *Reader) Rest() []byte { return r.Take(len(r.rest)) }
