package consensus

import "errors"

var (
	// ErrNotLeader: this replica does not lead, is not ready yet to serve as
	// leader or is handing over. The proposal was certainly not logged.
	ErrNotLeader = errors.New("not the leader")
	// ErrTooLarge: the proposal exceeds MaxProposal bytes. Not logged.
	ErrTooLarge = errors.New("proposal too large")
	// ErrOverloaded: too many proposals are in flight, or the log took none for
	// a while. Not logged.
	ErrOverloaded = errors.New("too many proposals in flight")
	// ErrClosed: the replica was closed or had failed before the call. Not logged.
	ErrClosed = errors.New("replica closed")
	// ErrInDoubt: the proposal may have been logged, or may still be.
	ErrInDoubt = errors.New("outcome unknown")

	// ErrNotEmpty: Bootstrap of a replica that has state.
	ErrNotEmpty = errors.New("replica has state already")
	// ErrDataLoss: the machine's durable state is older than the log can
	// replay, or newer state is missing. The replica must be rebuilt under a
	// new id.
	ErrDataLoss = errors.New("data loss detected")
	// ErrDamaged: a log entry or a file does not match its checksum.
	ErrDamaged = errors.New("damaged log")
	// ErrStalled: the disk, the machine or a leadership transfer hangs or gave
	// up; the owner reopens the replica, in a new process if the disk is at fault.
	ErrStalled = errors.New("replica stalled")
	// ErrConfigChanged: the membership changed under the caller; look again.
	ErrConfigChanged = errors.New("membership changed meanwhile")
)
