package node

import (
	"context"
	"testing"
	"time"
)

// A replica that hangs while it pins leaves the others time to be compared.
func TestVerifyLeavesTimeToCompare(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first, stop := firstPart(ctx)
	defer stop()
	end, ok := first.Deadline()
	if left := time.Until(end); !ok || left <= 0 || left > 15*time.Second {
		t.Errorf("the first of two steps may take %v of a minute, want at most 15s", left)
	}
	bare, stop := firstPart(context.Background())
	defer stop()
	if _, ok := bare.Deadline(); ok || bare.Err() != nil {
		t.Error("a bound came from nowhere")
	}
}
