package consensus

import (
	"io"
	"time"
)

// Kind says what a committed entry is.
type Kind uint8

const (
	// Command carries what was given to Propose.
	Command Kind = 1
	// TermStart is proposed by a replica that gained leadership. It carries no
	// data; once it is applied, every earlier entry is too.
	TermStart Kind = 2
	// Membership carries an encoded configuration of the Raft group, opaque to
	// the machine, which keeps it in its Meta.
	Membership Kind = 3
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case Command:
		return "command"
	case TermStart:
		return "term start"
	case Membership:
		return "membership"
	default:
		return "unknown"
	}
}

// Entry is one committed entry of the log.
type Entry struct {
	Index, Term uint64
	Kind        Kind
	Data        []byte // never changes, so parts of it may be kept
}

// Meta says which point of the log a state stands for.
type Meta struct {
	Index, Term     uint64 // of the newest entry applied
	Membership      []byte // Data of the newest Membership entry applied
	MembershipIndex uint64 // its index
}

// Machine is the replicated state, implemented by group and ctrler. Apply,
// Install and Meta are called by one goroutine at a time; Checkpoint and
// Export may run beside Apply, never beside Install.
//
// Entries it was given are committed, an error cannot undo them. A machine that
// cannot apply them all, for a fault of its own disk, returns with its Meta where
// it got to: the replica fails with ErrStalled, to be opened anew.
type Machine interface {
	// Apply applies committed entries in order and returns one result each.
	// Indexes ascend but may have gaps. TermStart and Membership come too: they
	// move the applied index. It must be deterministic.
	Apply(entries []Entry) []any
	// Meta is what is applied; right after opening, what is durable.
	Meta() Meta
	// Checkpoint makes everything applied durable and returns its meta.
	Checkpoint() (Meta, error)
	// Export writes the whole state at one index and returns its meta.
	Export(w io.Writer) (Meta, error)
	// Install replaces everything by an exported state, atomically and
	// durably. Meta is the stream's afterwards, or unchanged after an error.
	Install(r io.Reader) error
}

// Writer is a Machine whose entries may write far more than they hold, like an
// append to a long value. A restart has to do that again, so it counts towards
// the next checkpoint.
type Writer interface {
	Written() int64 // bytes of rows that the last Apply wrote
}

// Server is a member of the Raft group.
type Server struct {
	ID    string // `<node id>.<replica epoch>`; also its Raft address
	Voter bool
	// StandsStill is, in a Status of the leader, for how long the server has
	// taken nothing of what its log lacks though it answers; 0 if it gets on.
	StandsStill time.Duration
}
