package kv

import (
	"bytes"
	"strings"
	"testing"
)

// TestCounts checks the limits that a scenario cannot spell out.
func TestCounts(t *testing.T) {
	keys := func(name string, n int) [][]byte {
		args := [][]byte{[]byte(name)}
		for range n {
			args = append(args, []byte("k"))
		}
		return args
	}
	tests := []struct {
		args [][]byte
		want string
	}{
		{nil, "ERR empty command"},
		{keys("mget", MaxKeys), ""},
		{keys("mget", MaxKeys+1), textTooMany},
		{keys("del", MaxKeys*3), textTooMany},
		{keys("mset", 2*MaxKeys), ""},
		{keys("mset", 2*MaxKeys+1), textTooMany},
		{keys("mset", 2*MaxKeys+2), textTooMany},
		{append(keys("set", 2), bytes.Fields([]byte(strings.Repeat("GET ", MaxArgs)))...), textArgs},
		{append(keys("mset", 1), bytes.Split([]byte(strings.Repeat(strings.Repeat("v", 900_000)+" k ", 4)+strings.Repeat("v", 900_000)), []byte(" "))...), textCommand},
	}
	for i, test := range tests {
		c, err := Parse(test.args)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			roundTrip(t, c)
		}
		if got != test.want {
			t.Errorf("%d: %q, want %q", i, got, test.want)
		}
	}
}

// TestAllocations keeps the commands of the hot path as lean as they are: they
// run for each command on every replica.
func TestAllocations(t *testing.T) {
	w := world{"k": {Data: []byte("12")}}
	tests := []struct {
		line string
		most float64
	}{
		{"GET k", 0}, {"SET k v", 1}, {"INCR k", 2}, {"APPEND k v", 2}, {"SET k v NX", 0}, {"EXISTS k", 0}, {"DEL k", 1}, {"TTL k", 0},
	}
	for _, test := range tests {
		args := fields(t, test.line)
		got := testing.AllocsPerRun(100, func() {
			c, err := Parse(args)
			if err != nil {
				t.Fatal(err)
			}
			c.Shard(256)
			Exec(w, c, 1000)
		})
		if got > test.most {
			t.Errorf("%s: %v allocations, %v were enough", test.line, got, test.most)
		}
	}
}

func BenchmarkSet(b *testing.B) {
	w := world{}
	c := Command{OpSet, [][]byte{[]byte("key:000001"), bytes.Repeat([]byte("x"), 256)}}
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = c.Append(buf[:0])
		_, writes := Exec(w, c, 1)
		buf = writes[0].Value.Append(buf[:0])
	}
}
