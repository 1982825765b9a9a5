package promise

import (
	"fmt"

	"shardkv/internal/wire"
)

const messageVersion = 1

// Kind says what a message is.
type Kind uint8

const (
	Propose Kind = 1 + iota // proposer -> every candidate: promise, or object
	Promise                 // member -> proposer: promised, for good
	Clear                   // no member -> proposer: nothing against it
	Refuse                  // -> proposer: not now, for what Holding or Cluster says
	Ask                     // holder -> proposer and members: is it dead?
	Held                    // -> holder: I hold that promise as well, and don't know
	Dead                    // -> anybody: it will never be
)

var kinds = [...]string{"", "propose", "promise", "clear", "refuse", "ask", "held", "dead"}

func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// Message goes from one node to another. Losing, delaying and doubling it does
// no harm.
type Message struct {
	Kind     Kind
	From, To string // node ids
	Proposal Proposal
	Voter    Voter  // Promise: the sender
	Holding  string // Refuse: proposer of the promise that the sender holds
	Cluster  string // Refuse: cluster id of the state that the sender holds
}

// Append appends the encoding that ReadMessage reads.
func (m Message) Append(b []byte) []byte {
	b = append(b, messageVersion, byte(m.Kind))
	b = wire.AppendString(wire.AppendString(b, m.From), m.To)
	b = m.Voter.append(m.Proposal.append(b))
	return wire.AppendString(wire.AppendString(b, m.Holding), m.Cluster)
}

// ReadMessage reads what Append wrote; nothing may follow it.
func ReadMessage(b []byte) (Message, error) {
	r := wire.NewReader(b)
	r.Version(messageVersion, "bootstrap message")
	m := Message{Kind: Kind(r.Byte()), From: r.String(), To: r.String(),
		Proposal: readProposal(r), Voter: readVoter(r), Holding: r.String(), Cluster: r.String()}
	if m.Kind < Propose || m.Kind > Dead {
		r.Fail("unknown kind %d", m.Kind)
	}
	if err := r.Close(); err != nil {
		return Message{}, fmt.Errorf("reading a bootstrap message: %w", err)
	}
	return m, nil
}
