package cli

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestClosing: a node that hangs while it closes must not keep its process
// beyond the promised 10 s; one that fails must say so.
func TestClosing(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		run  func(context.Context) error
		took time.Duration
		err  error
	}{
		{"in good order", func(ctx context.Context) error { <-ctx.Done(); return nil }, time.Minute, nil},
		{"fails at once", func(context.Context) error { return broken }, 0, broken},
		{"fails while closing", func(ctx context.Context) error { <-ctx.Done(); return broken }, time.Minute, broken},
		{"slow", func(ctx context.Context) error { <-ctx.Done(); <-time.After(8 * time.Second); return nil }, time.Minute + 8*time.Second, nil},
		{"hangs", func(ctx context.Context) error { <-ctx.Done(); <-time.After(time.Hour); return broken }, time.Minute + closeWithin, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the signal
			defer cancel()
			start := time.Now()
			err := closing(ctx, slog.New(slog.DiscardHandler), c.run)
			if took := time.Since(start); !errors.Is(err, c.err) || took != c.took {
				t.Errorf("%s: %v after %v", c.name, err, took)
			}
			<-time.After(2 * time.Hour) // what hangs ends at last
		})
	}
}
