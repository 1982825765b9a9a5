package router

import (
	"fmt"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

// Replies of the router itself. The code of each says whether the command can
// have been executed; README.md has the table.
const (
	textLate      = "TRYAGAIN not executed within the client timeout"
	textClosing   = "TRYAGAIN this node is shutting down"
	textInDoubt   = "TIMEOUT no outcome within the client timeout; the write may or may not have been executed"
	textCrossSlot = "CROSSSLOT Keys in request don't hash to the same slot"
	textFull      = "OOM too many commands wait on this node"
	textMerged    = "ERR reply exceeds maximum allowed size"
)

// reason is why an attempt was refused. It becomes the text of the reply if
// the command's time is up.
type reason struct {
	kind  reasonKind
	gid   shard.GID
	shard shard.ID
}

type reasonKind uint8

const (
	noReason reasonKind = iota
	noOwner
	noLeader
	moving
	notOwned
	overloaded
	unreachable
	closing
	misrouted
)

// text maps every reason to its reply.
func (w reason) text() string {
	switch w.kind {
	case noOwner:
		return fmt.Sprintf("CLUSTERDOWN Hash slot not served: no group owns shard %d", w.shard)
	case noLeader:
		return fmt.Sprintf("CLUSTERDOWN group %d has no leader that this node knows", w.gid)
	case moving:
		return fmt.Sprintf("TRYAGAIN shard %d is still moving to group %d", w.shard, w.gid)
	case notOwned:
		return fmt.Sprintf("TRYAGAIN group %d does not own shard %d yet or any more", w.gid, w.shard)
	case overloaded:
		return fmt.Sprintf("TRYAGAIN group %d is overloaded", w.gid)
	case unreachable:
		return fmt.Sprintf("TRYAGAIN the leader of group %d was not reached", w.gid)
	case misrouted:
		return fmt.Sprintf("ERR this node and group %d disagree about the keys of shard %d", w.gid, w.shard)
	case closing:
		return textClosing
	default:
		return textLate
	}
}

func (w reason) reply() kv.Reply { return kv.ErrorReply(w.text()) }

// movedReply sends a cluster-aware client to the leader of a key.
func movedReply(key []byte, client string) kv.Reply {
	return kv.ErrorReply(fmt.Sprintf("MOVED %d %s", shard.Slot(key), client))
}

// doubtReply is a value, not a copy: nobody changes a reply's bytes.
var doubtReply = kv.ErrorReply(textInDoubt)
