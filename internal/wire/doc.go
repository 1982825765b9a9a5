// Package wire reads and writes the primitive values that everything shardkv
// persists or sends is made of: bytes, varints and length-prefixed strings.
//
// Invariants: a Reader never panics and never allocates more than the input it
// was given holds, whatever the input is; the first fault sticks and is
// reported by Err. Appending and reading are inverse to each other.
//
// It knows no message: whoever owns one writes its version byte and its fields.
package wire
