package migrate

// Outcome is what became of a step that was asked for. Refusals change nothing.
type Outcome uint8

const (
	Done       Outcome = iota // the state changed as asked
	Already                   // it had been done before; as good as Done
	Early                     // we are not yet at that config: try again later
	Late                      // we are past that config; whoever asks is behind
	Moving                    // a config cannot be taken while shards move
	WrongState                // the shard is not in the status the step starts from
	WrongPlace                // a chunk that does not continue the cursor
	WrongEpoch                // meant for another life of this group
	Invalid                   // a config that no ctrler makes: other shard count, a shard given to nobody
)

var outcomeNames = [...]string{"done", "already", "early", "late", "moving", "wrong-state", "wrong-place", "wrong-epoch", "invalid"}

func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// OK says whether what was asked for holds now.
func (o Outcome) OK() bool { return o == Done || o == Already }
