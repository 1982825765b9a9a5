package consensus

import (
	"bytes"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// If this fails, what one replica writes another does not read, or damage
// passes for content.
func TestEnvelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		kind := rapid.SampledFrom([]Kind{Command, TermStart}).Draw(t, "kind")
		b := seal(kind, data)
		k, got, err := unseal(b)
		if err != nil || k != kind || !bytes.Equal(got, data) {
			t.Fatalf("%v %q %v", k, got, err)
		}
		i := rapid.IntRange(0, len(b)*8-1).Draw(t, "bit")
		b[i/8] ^= 1 << (i % 8)
		if _, _, err := unseal(b); err == nil {
			t.Fatalf("bit %d turned unnoticed", i)
		}
		if _, _, err := unseal(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("cut short unnoticed")
		}
	})
}

// If this fails, damage of a small file passes for content.
func TestRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := record{index: rapid.Uint64().Draw(t, "index"), term: rapid.Uint64().Draw(t, "term"),
			membership:      rapid.SliceOf(rapid.Byte()).Draw(t, "membership"),
			membershipIndex: rapid.Uint64().Draw(t, "at"), size: int64(rapid.Uint32().Draw(t, "size")), sum: rapid.Uint32().Draw(t, "sum")}
		b := rec.encode()
		got, err := decodeRecord(b)
		if err != nil || !bytes.Equal(got.encode(), b) {
			t.Fatalf("%+v %v", got, err)
		}
		i := rapid.IntRange(0, len(b)*8-1).Draw(t, "bit")
		b[i/8] ^= 1 << (i % 8)
		if _, err := decodeRecord(b); err == nil {
			t.Fatalf("bit %d turned unnoticed", i)
		}
	})
}

func FuzzUnseal(f *testing.F) {
	f.Add(seal(Command, []byte("x")))
	f.Add(seal(TermStart, nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, data, err := unseal(b); err == nil && !bytes.Equal(seal(k, data), b) {
			t.Fatal("not what seal makes")
		}
	})
}

func FuzzDecodeMembership(f *testing.F) {
	f.Add(encodeMembership(configurationOf([]Server{{ID: "a", Voter: true}, {ID: "b"}})))
	f.Add([]byte{membershipVersion, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeMembership(b)
		if err != nil {
			return
		}
		again, err := decodeMembership(encodeMembership(configurationOf(serversOf(c))))
		if err != nil || len(again.Servers) != len(c.Servers) {
			t.Fatal(again, err)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(record{index: 7, term: 1, membership: []byte("m"), size: 3, sum: 9}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if rec, err := decodeRecord(b); err == nil && !bytes.Equal(rec.encode(), b) {
			t.Log("another form of the same: varints may be padded")
		}
	})
}

// If this fails, replication sends an entry that the log no longer has, or
// memory grows without bound.
func TestRecentAgainstTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := recent{maxEntries: rapid.IntRange(1, 8).Draw(t, "entries"), maxBytes: 2000}
		twin := map[uint64]*raft.Log{} // all the log has
		first, last := uint64(1), uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				var logs []*raft.Log
				for range rapid.IntRange(1, 5).Draw(t, "n") {
					last++
					l := &raft.Log{Index: last, Data: make([]byte, rapid.IntRange(0, 900).Draw(t, "size"))}
					twin[last] = l
					logs = append(logs, l)
				}
				c.add(logs)
			case 2:
				hi := rapid.Uint64Range(first-1, last).Draw(t, "prefix to")
				c.remove(first, hi)
				for ; first <= hi; first++ {
					delete(twin, first)
				}
			case 3:
				if last < first {
					continue
				}
				lo := rapid.Uint64Range(first, last).Draw(t, "suffix from")
				c.remove(lo, last)
				for ; last >= lo; last-- {
					delete(twin, last)
				}
			}
			var bytes int64
			held := 0
			for i := uint64(0); i <= last+2; i++ {
				if l := c.get(i); l != nil {
					if twin[i] != l {
						t.Fatalf("entry %d is not what the log has", i)
					}
					bytes += sizeOf(l)
					held++
				}
			}
			if held != len(c.logs) || bytes != c.bytes || held > c.maxEntries || bytes > c.maxBytes {
				t.Fatalf("%d entries of %d bytes, says %d, %d", held, bytes, len(c.logs), c.bytes)
			}
		}
	})
}

// If this fails, the log keeps more behind a checkpoint than it may.
func TestWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWeights(0, 0, 0)
		var sizes []int64
		for range rapid.IntRange(1, 300).Draw(t, "entries") {
			l := &raft.Log{Index: uint64(len(sizes) + 1), Data: make([]byte, rapid.IntRange(0, 64<<10).Draw(t, "size"))}
			w.add([]*raft.Log{l})
			sizes = append(sizes, sizeOf(l))
		}
		maxBytes := int64(rapid.IntRange(1<<20, 8<<20).Draw(t, "bytes"))
		keep := w.trailing(1000, maxBytes)
		var sum int64
		for i := len(sizes) - 1; i >= 0 && len(sizes)-i <= int(keep); i-- {
			sum += sizes[i]
		}
		if keep > minTrailing && sum > maxBytes {
			t.Fatalf("%d entries of %d bytes are kept, at most %d", keep, sum, maxBytes)
		}
		cut := uint64(rapid.IntRange(0, len(sizes)).Draw(t, "cut"))
		w.remove(1, cut)
		if int(cut) == len(sizes) {
			sum = 0
		} else {
			sum = 0
			for _, s := range sizes[cut:] {
				sum += s
			}
		}
		if got := w.bytes(); got < sum-weightStep-64<<10 || got > sum+weightStep+64<<10 {
			t.Fatalf("%d bytes, about %d expected", got, sum)
		}
	})
}
