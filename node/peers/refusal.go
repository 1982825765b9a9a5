package peers

import (
	"errors"
	"fmt"
)

// Refusals: what was asked was certainly not done. Any other error of a call
// that writes leaves that open.
var (
	// ErrRefused: certainly not delivered, or not accepted by the other side.
	ErrRefused = errors.New("refused")
	// ErrOverloaded: refused since too much waits there.
	ErrOverloaded = fmt.Errorf("%w: overloaded", ErrRefused)
)

// NotLeaderError: refused by a replica that does not lead its group, or by a
// node without a replica of it.
type NotLeaderError struct{ Hint string } // node id of the leader, "" if unknown

func (e *NotLeaderError) Error() string { return "refused: not the leader" }

// Unwrap makes it a refusal.
func (e *NotLeaderError) Unwrap() error { return ErrRefused }
