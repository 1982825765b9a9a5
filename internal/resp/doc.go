// Package resp reads and writes the Redis serialization protocol: a bounded
// reader of commands, inline and multibulk, and a writer of replies in RESP2
// and RESP3.
//
// Invariants: the reader checks every announced count and length against its
// limits before it takes memory, and takes memory only as bytes arrive; a
// well-formed command beyond a limit is skipped in bounded memory and handed
// out as a refusal, in its place; a malformed one ends the stream; a reader
// that waits between commands holds no buffer; what it hands out is never
// written again. The writer holds at most FlushBytes before its sink has them.
//
// It must not know what a command means, nor anything of shards, authentication
// or sockets beyond reading from one.
package resp
