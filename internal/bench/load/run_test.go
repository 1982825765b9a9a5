package load

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memory answers after a fixed time; it fails every request of one client.
type memory struct {
	takes time.Duration
	bad   int

	mu   sync.Mutex
	keys map[string]bool
}

type memorySession struct {
	*memory
	client int
}

var errBad = errors.New("bad client")

func (m *memory) Session(client int) (Session, error) { return memorySession{m, client}, nil }
func (m *memory) Close() error                        { return nil }

func (s memorySession) Do(ctx context.Context, batch []Request) {
	select {
	case <-ctx.Done():
	case <-time.After(s.takes):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range batch {
		switch key := string(batch[i].Key); {
		case s.client == s.bad:
			batch[i].Err = errBad
		case batch[i].Op == OpGet:
			batch[i].Miss = !s.keys[key]
		default:
			s.keys[key] = true
		}
	}
}

// What is counted is what came back within the measured time, and errors are
// never operations.
func TestRunCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &memory{takes: 3 * time.Millisecond, bad: 1, keys: map[string]bool{}}
		s := spec(Get)
		s.Pipeline, s.Warmup, s.Duration = 2, time.Second, 3*time.Second
		res, err := Run(t.Context(), s, store)
		if err != nil {
			t.Fatal(err)
		}
		// Two good clients, 1000 pipelines of 2 each; the one at an edge may
		// fall on either side.
		if res.Ops < 3990 || res.Ops > 4010 || res.Misses != res.Ops || res.PerSecond != float64(res.Ops)/3 {
			t.Errorf("%d operations, %d misses, %f a second", res.Ops, res.Misses, res.PerSecond)
		}
		if res.Errors == 0 || res.WarmupErrors == 0 || res.FirstError != errBad.Error() {
			t.Errorf("errors %d and %d, first %q", res.Errors, res.WarmupErrors, res.FirstError)
		}
		if res.P50 < 3000 || res.P99 > 3050 || res.Max != 3000 {
			t.Errorf("p50 %f, p99 %f, max %f", res.P50, res.P99, res.Max)
		}
	})
}

func TestFillEndsWithAnErrorIfAKeyIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for bad, want := range map[int]error{-1: nil, 2: errBad} {
			store := &memory{takes: time.Millisecond, bad: bad, keys: map[string]bool{}}
			_, err := Run(t.Context(), spec(Fill), store)
			if (err != nil) != (want != nil) {
				t.Errorf("bad client %d: %v", bad, err)
			}
			if bad < 0 && len(store.keys) != 50 {
				t.Errorf("%d keys of 50 are written", len(store.keys))
			}
		}
	})
}

func TestUsageOfThisProcess(t *testing.T) {
	u, err := readUsage([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	if u.client < 0 || u.servers < 0 || u.machine < u.servers {
		t.Errorf("%+v", u)
	}
	if got, err := machineSeconds("cpu  100 20 30 999 50 6 7 8 0 0\ncpu0 1\n"); err != nil || got != 1.63 {
		t.Errorf("%v, %v", got, err)
	}
}
