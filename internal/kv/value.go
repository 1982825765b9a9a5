package kv

import (
	"encoding/binary"

	"shardkv/internal/wire"
)

const valueVersion = 1

// Value is what a key holds.
type Value struct {
	Data     []byte
	ExpireAt int64 // log time, ms since the Unix epoch; 0 = never
}

// Expired says whether the value is gone at log time now.
func Expired(v Value, now int64) bool { return v.ExpireAt != 0 && now >= v.ExpireAt }

// Append appends the encoding of v: version, expiry, data to the end. Equal
// values have equal encodings.
func (v Value) Append(b []byte) []byte {
	b = append(b, valueVersion)
	b = binary.AppendUvarint(b, uint64(v.ExpireAt))
	return append(b, v.Data...)
}

// ReadValue reads what Append wrote; the data alias b. An error wraps
// wire.ErrMalformed.
func ReadValue(b []byte) (Value, error) {
	if len(b) >= 2 && b[0] == valueVersion && b[1] == 0 { // no expiry: by far the most
		return Value{Data: b[2:]}, nil
	}
	r := wire.NewReader(b)
	r.Version(valueVersion, "value")
	at := int64(r.Uvarint())
	if at < 0 {
		r.Fail("expiry before the epoch")
	}
	data := r.Rest()
	if err := r.Close(); err != nil {
		return Value{}, err
	}
	return Value{data, at}, nil
}

// View is what Exec reads through. It is raw: a key that has expired is
// returned like any other, Exec judges it with now.
type View interface {
	Get(key []byte) (Value, bool)
}

// Write is one change that a command wants. Writes of one command are applied
// in order: the last one of a key stands.
type Write struct {
	Key    []byte
	Value  Value
	Delete bool
}
