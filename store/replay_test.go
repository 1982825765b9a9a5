package store

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestReplay: a store that was killed starts at its last checkpoint, whatever
// newer versions it has on disk, and replaying the log with other batch
// boundaries gives the rows of every index on the way.
func TestReplay(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			random := func(uint64) bool { return r.IntN(5) == 0 }
			s := open(t, t.TempDir())
			apply(t, s, 0, 300, random)
			if seed%2 == 1 {
				flush(t, s)
			}
			if m, err := s.Checkpoint(); err != nil || m.Index != 300 {
				t.Fatal(m, err)
			}
			apply(t, s, 300, 700, random)
			if seed >= 2 {
				for range levelZeroTables + 1 {
					flush(t, s)
				}
				db := s.db.Load()
				db.advanceDiscard(db.bdb.SetDiscardTs) // no further than the checkpoint
				if err := db.bdb.Flatten(1); err != nil {
					t.Fatal(err)
				}
			}
			apply(t, s, 700, 900, random)
			spill(t, s)
			at := uint64(300)
			for round := range 3 { // killed again and again in the middle of the replay
				s = open(t, crash(t, s))
				expect(t, s, at)
				if max := s.db.Load().bdb.MaxVersion(); max <= at {
					t.Fatalf("no version after the checkpoint is left: %d", max)
				}
				naive := reading{db: s.db.Load(), index: ^uint64(0)}
				rows := map[string]string{}
				if err := naive.scan(nil, nil, false, func(row, value []byte, _ int64) bool { rows[string(row)] = string(value); return true }); err != nil {
					t.Fatal(err)
				}
				naive.end()
				if sumOf(rows) == sumOf(model(at)) {
					t.Fatal("a read of the newest versions would do: nothing is tested")
				}
				next := at + 150
				for at < next {
					end := min(at+1+r.Uint64N(40), next)
					apply(t, s, at, end, random)
					at = end
					if r.IntN(3) == 0 {
						spill(t, s)
					}
					expect(t, s, at)
				}
				if round == 1 {
					if _, err := s.Checkpoint(); err != nil {
						t.Fatal(err)
					}
					if seed >= 2 {
						flush(t, s) // the memtable it recorded goes, with versions that the first run had too
					}
				} else {
					at = max(300, s.recordedIndex())
				}
			}
			at = s.Meta().Index
			apply(t, s, at, 1000, random)
			expect(t, s, 1000)
			if err := s.db.Load().compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			expect(t, s, 1000)
			s = reopen(t, s)
			expect(t, s, 1000)
			if n := len(s.db.Load().metaRows()); n > 2 {
				t.Errorf("%d meta rows of earlier runs are kept", n)
			}
		})
	}
}

func (s *Store) recordedIndex() uint64 {
	db := s.db.Load()
	db.checkpointing.Lock()
	defer db.checkpointing.Unlock()
	return db.recorded.Meta.Index
}

// TestKilled: a child commits as fast as it can, checkpoints now and then and is
// killed; everything it said was checkpointed is there.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("STORE_CHILD"); dir != "" {
		s, err := Open(t.Context(), config(dir))
		if err != nil {
			t.Fatal(err)
		}
		for i := s.Meta().Index; ; i += 50 {
			apply(t, s, i, i+50, every(5))
			if i/50%4 == 3 {
				m, err := s.Checkpoint()
				if err != nil {
					t.Fatal(err)
				}
				fmt.Printf("checkpoint %d\n", m.Index)
			}
			if i%5000 == 2500 {
				flush(t, s)
			}
		}
	}
	dir := t.TempDir()
	start := uint64(0)
	for range 3 {
		child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		child.Env = append(os.Environ(), "STORE_CHILD="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var last uint64
		lines := bufio.NewScanner(out)
		for last < start+3000 && lines.Scan() {
			if n, ok := strings.CutPrefix(lines.Text(), "checkpoint "); ok {
				last, _ = strconv.ParseUint(n, 10, 64)
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			if n, ok := strings.CutPrefix(lines.Text(), "checkpoint "); ok {
				last, _ = strconv.ParseUint(n, 10, 64)
			}
		}
		if err := child.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		s := open(t, dir)
		if got := s.Meta().Index; got < last || last == 0 {
			t.Fatalf("at index %d after a checkpoint of %d", got, last)
		}
		start = s.Meta().Index
		expect(t, s, start)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
