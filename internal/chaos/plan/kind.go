package plan

// Kind is one sort of fault or change.
type Kind string

// The faults of processes.
const (
	Kill      Kind = "kill"       // SIGKILL, start after a while
	KillLead  Kind = "killlead"   // the same for the leader of a group
	KillCtrl  Kind = "killctrler" // the same for the ctrler's leader
	KillGroup Kind = "killgroup"  // all nodes of a group at once
	KillAll   Kind = "killall"
	Pause     Kind = "pause" // SIGSTOP, SIGCONT after a while
	PauseLead Kind = "pauselead"
	PauseAll  Kind = "pauseall"
	Rolling   Kind = "rolling" // SIGTERM and start, one node after the other
	Address   Kind = "address" // SIGKILL, start at another address
)

// The faults of the network.
const (
	Half     Kind = "half"     // two sides that do not hear each other
	Isolate  Kind = "isolate"  // one node hears no other; clients reach it
	Unplug   Kind = "unplug"   // one node hears nobody
	Bridge   Kind = "bridge"   // two sides and one node that hears both
	OneWay   Kind = "oneway"   // what one node sends to one other is lost
	Deaf     Kind = "deaf"     // one node hears no other, yet is heard
	Flap     Kind = "flap"     // a cable in and out
	Loss     Kind = "loss"     // a tenth of all packets
	Throttle Kind = "throttle" // a thin link: packets wait up to half a second
	CutCtrl  Kind = "cutctrler"
)

// The faults of disks and clocks.
const (
	SlowSync Kind = "slowsync" // each fsync waits
	FailSync Kind = "failsync" // each fsync fails
	Full     Kind = "full"     // no space left
	Wipe     Kind = "wipe"     // SIGKILL, no data directory, start
	Flip     Kind = "flip"     // SIGKILL, bits of one file of one replica flipped, start
	Tail     Kind = "tail"     // SIGKILL, a file of one replica cut short, start
	Clock    Kind = "clock"    // one node's clock jumps, and back
	Strobe   Kind = "strobe"   // one node's clock jumps again and again
)

// The changes of the configuration.
const (
	Leave    Kind = "leave" // a group leaves, and joins again after a while
	Move     Kind = "move"
	PingPong Kind = "pingpong" // a shard moves there and back without a wait
	Swap     Kind = "swap"     // two shards of two groups change places
	Burst    Kind = "burst"    // several moves at once
)

// weighted is a kind and how often it is drawn.
type weighted struct {
	kind   Kind
	weight int
}

// faults: the weights of the project's test plan. Losing power needs a device
// below the file system that forgets; it is not among them.
var faults = []weighted{
	{Kill, 10}, {KillLead, 15}, {KillCtrl, 4}, {KillGroup, 8}, {KillAll, 3},
	{Pause, 10}, {PauseLead, 8}, {PauseAll, 1}, {Rolling, 3}, {Address, 3},
	{Half, 8}, {Isolate, 6}, {Unplug, 2}, {Bridge, 4}, {OneWay, 7}, {Deaf, 3},
	{Flap, 5}, {Loss, 5}, {Throttle, 5}, {CutCtrl, 4},
	{SlowSync, 5}, {FailSync, 2}, {Full, 4}, {Wipe, 4}, {Flip, 2}, {Tail, 2},
	{Clock, 3}, {Strobe, 2},
}

var changes = []weighted{{Leave, 15}, {Move, 15}, {PingPong, 8}, {Swap, 4}, {Burst, 4}}
