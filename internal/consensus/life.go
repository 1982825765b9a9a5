package consensus

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// drain bounds how long Close waits for proposals in flight: without a
// majority the leader gives them up after an election timeout.
const drain = time.Second

// life is the one-way path of a replica: working, then failed or closed.
type life struct {
	down   chan struct{} // closed when the replica serves no more
	opened chan struct{} // closed when Open is through
	failed chan error    // yields the reason once

	mu      sync.RWMutex
	closing bool
	reason  atomic.Pointer[error]
	calls   sync.WaitGroup // goroutines that wait for the library
}

func newLife() *life {
	return &life{down: make(chan struct{}), opened: make(chan struct{}), failed: make(chan error, 1)}
}

// why returns the reason of a failure, or nil.
func (l *life) why() error {
	if p := l.reason.Load(); p != nil {
		return *p
	}
	return nil
}

func (l *life) isDown() bool {
	select {
	case <-l.down:
		return true
	default:
		return false
	}
}

// end closes down once and tells whether this call did.
func (l *life) end(reason error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return false
	}
	l.closing = true
	if reason != nil {
		l.reason.Store(&reason)
		l.failed <- reason
	}
	close(l.down)
	return true
}

// enter registers a goroutine that is about to call into the library;
// ErrClosed once the replica is down.
func (l *life) enter() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closing {
		if err := l.why(); err != nil {
			return fmt.Errorf("%w: failed: %w", ErrClosed, err)
		}
		return ErrClosed
	}
	l.calls.Add(1)
	return nil
}

// whileUp calls f, which must not block, unless the replica is down: nothing
// beneath the library is closed before f returns.
func (l *life) whileUp(f func()) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.closing {
		f()
	}
}

// fail stops serving at once: callers are answered, peers lose their streams
// (heartbeats outlive the library's Shutdown), then it is shut down without
// waiting. Called on the library's own goroutines too.
func (r *Replica) fail(reason error) {
	if !r.life.end(reason) {
		return
	}
	r.c.Log.Error("replica failed", "server", r.c.ID, "reason", reason)
	wake(r.changes)
	go func() {
		r.c.Streams.Cut()
		<-r.life.opened
		if r.raft != nil {
			r.shutdown()
		}
	}()
}

// Failed yields one error when the replica has failed: it serves nothing more
// and the owner closes it. ErrDamaged and ErrDataLoss: rebuild it under a new
// id. ErrStalled: reopen it, in a new process if it says that it is in use.
func (r *Replica) Failed() <-chan error { return r.life.failed }

// Close stops the replica. It returns within Timing.CloseDeadline, with
// ErrStalled if the disk hangs; the directory stays locked then. It does not
// hand over leadership: call Transfer before.
func (r *Replica) Close() error {
	r.closeOnce.Do(func() { r.closeErr = r.close() })
	return r.closeErr
}

func (r *Replica) close() error {
	if r.life.end(nil) {
		waitFor(&r.life.calls, drain)
	}
	done := make(chan error, 1)
	go func() {
		r.c.Streams.Cut()
		r.shutdown().Error()
		r.loops.Wait()
		done <- r.release()
	}()
	timer := time.NewTimer(r.c.Timing.CloseDeadline)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("close: %w", ErrStalled)
	}
}

// waitFor waits for wg up to d.
func waitFor(wg *sync.WaitGroup, d time.Duration) {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// release closes what Open opened beneath the library.
func (r *Replica) release() error {
	var errs []error
	if r.trans != nil {
		errs = append(errs, r.trans.Close())
	}
	if r.wal != nil {
		errs = append(errs, r.wal.Close(), r.segments.close())
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}
	return errors.Join(errs...)
}

// stop is the library's Shutdown; its future waits for the library's
// goroutines, but only the one of the first call.
func stop(rf *raft.Raft) func() raft.Future { return sync.OnceValue(rf.Shutdown) }
