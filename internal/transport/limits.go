package transport

import "time"

// The limits of this package. What crosses one is refused with a clear error.
const (
	MaxMessage      = 8 << 20                // largest request, answer or bulk frame, in bytes
	MaxInFlight     = 4096                   // Asks without an answer, per peer and direction; more wait
	maxIdleWorkers  = 32                     // goroutines that wait for the next Ask of a peer
	maxQueued       = 16 << 20               // bytes of Asks not yet handed to the connection, per peer; more is refused
	maxFlush        = 256 << 10              // Asks and answers coalesced into one message, in bytes
	maxCalls        = 1024                   // unary calls and bulk streams a connection may have open
	maxHandshakes   = 256                    // connections that have not finished their preface
	maxBacklog      = 64                     // raft streams accepted and not yet taken by their replica
	maxPreface      = 1024                   // body of a preface, in bytes
	maxReason       = 400                    // text of a refusal, in bytes
	dialTimeout     = time.Second            // TCP connect and preface of a call; raft dials bring their own
	prefaceTimeout  = 2 * time.Second        // how long an acceptor waits for a preface
	redialPause     = 50 * time.Millisecond  // after a failed dial, calls fail at once for that long
	silence         = 4 * time.Second        // unacknowledged or unanswered by the other host's kernel: the connection is dead
	keepaliveIdle   = time.Second            // idle time before the kernel probes
	deadlineStep    = 250 * time.Millisecond // handlers of Asks see deadlines rounded up to this
	defaultDeadline = 30 * time.Second       // deadline of a handler whose caller has none
	maxDeadline     = 10 * time.Minute       // the longest that a handler of an Ask is given
	streamWindow    = 4 << 20                // HTTP/2 flow control window of a stream, in bytes
	connWindow      = 16 << 20               // and of a connection

	PeerMemory = maxQueued + connWindow // bytes that calls to one peer and its streams may take
)
