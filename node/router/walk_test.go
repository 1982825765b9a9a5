package router

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// SCAN returns every key once while nothing changes, in steps that its cursor
// connects, through moves and missing leaders; DBSIZE counts them all.
func TestScanAndDBSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := open(t, f, nil)
		defer end(t, r)
		c := r.Conn()
		var want []string
		for i := range 100 {
			k := key([]int{0, 1, 5, 7}[i%4], fmt.Sprintf("k%03d", i))
			expect(t, do(t, c, "SET "+k+" v"), "OK")
			want = append(want, k)
		}
		slices.Sort(want)
		for _, count := range []int{1, 7, 1000} {
			var got []string
			cursor, steps := uint64(0), 0
			for {
				next, keys, err := r.Scan(t.Context(), cursor, count)
				if err != nil || len(keys) > count {
					t.Fatal(len(keys), err)
				}
				for _, k := range keys {
					got = append(got, string(k))
				}
				steps++
				if cursor = next; cursor == 0 {
					break
				}
				if cursor>>62 != 0 {
					t.Fatalf("cursor %x", cursor)
				}
				if steps == 3 {
					f.change(func() { f.own(5, 2); f.own(5, 1); f.leaders[2] = "n3" })
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) || steps < 100/count {
				t.Fatalf("count %d: %d keys in %d steps", count, len(got), steps)
			}
		}
		if n, err := r.DBSize(t.Context()); n != 100 || err != nil {
			t.Fatal(n, err)
		}
	})
}

func TestScanFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := open(t, f, nil)
		defer end(t, r)
		expect(t, do(t, r.Conn(), "SET "+key(0, "k")+" v"), "OK")
		if _, _, err := r.Scan(t.Context(), testShards<<positionBits, 1); err != errCursor {
			t.Fatal(err)
		}
		f.change(func() { f.leaders[2] = "" })
		begin := time.Now()
		next, keys, err := r.Scan(t.Context(), 0, 10) // shard 0 answers, shard 1 does not
		if next != 1<<positionBits || len(keys) != 1 || err != nil {
			t.Fatal(next, keys, err)
		}
		if _, _, err = r.Scan(t.Context(), next, 10); err == nil {
			t.Fatal("no error")
		}
		expect(t, []string{"-" + err.Error()}, "-CLUSTERDOWN")
		_, err = r.DBSize(t.Context())
		if err == nil {
			t.Fatal("no error")
		}
		expect(t, []string{"-" + err.Error()}, "-CLUSTERDOWN")
		if d := time.Since(begin); d > 3*DefaultTimeout {
			t.Fatalf("took %v", d)
		}
		wait := later(time.Second, func() { f.change(func() { f.leaders[2] = "n2" }) })
		if n, err := r.DBSize(t.Context()); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		wait()
	})
}
