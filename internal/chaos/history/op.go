package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// Kind is what an operation does.
type Kind string

// The operations. What Value and Found of an acknowledged one mean stands beside
// each.
const (
	Get    Kind = "get"    // Found, Value
	Set    Kind = "set"    // nothing
	SetNX  Kind = "setnx"  // Value "1" if it set, "0" if not
	SetXX  Kind = "setxx"  // likewise
	GetSet Kind = "getset" // Found, Value: what was there before
	GetDel Kind = "getdel" // likewise
	Del    Kind = "del"    // Value "1" if there was one, "0" if not
	Exists Kind = "exists" // likewise
	Append Kind = "append" // Value: the length in bytes afterwards
	Incr   Kind = "incr"   // Arg: by how much; Value: the sum afterwards
)

func (k Kind) known() bool {
	return slices.Contains([]Kind{Get, Set, SetNX, SetXX, GetSet, GetDel, Del, Exists, Append, Incr}, k)
}

// Reads says whether an operation cannot change anything.
func (k Kind) Reads() bool { return k == Get || k == Exists }

// Outcome is what is known of an operation's effect.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"      // a normal reply came
	Fail    Outcome = "fail"    // the store promised that it did not happen
	Unknown Outcome = "unknown" // anything else: it may have happened once
)

// Never is the return time of an operation of unknown outcome.
const Never = math.MaxInt64

// Op is one operation of one client.
type Op struct {
	ID      int     `json:"id"`     // from 0, in the order of calls
	Client  int     `json:"client"` // has one operation open at a time
	Node    string  `json:"node,omitempty"`
	Kind    Kind    `json:"op"`
	Key     string  `json:"key"`
	Arg     string  `json:"arg,omitempty"`
	Call    int64   `json:"call_ns"`   // since the start of the recording
	Return  int64   `json:"return_ns"` // Never if unknown
	Outcome Outcome `json:"outcome"`
	Value   string  `json:"value,omitempty"`
	Found   bool    `json:"found,omitempty"`
	Err     string  `json:"err,omitempty"`
	Config  uint64  `json:"cfg_num,omitempty"`
	Group   uint32  `json:"group,omitempty"`
	Seed    uint64  `json:"seed,omitempty"`
}

// String renders an operation for people.
func (o Op) String() string {
	end := "?"
	if o.Return != Never {
		end = fmt.Sprintf("%.3f", float64(o.Return)/1e6)
	}
	s := fmt.Sprintf("#%d client %d %s(%s) [%.3f, %s] ms %s", o.ID, o.Client, o.Kind, o.Arg, float64(o.Call)/1e6, end, o.Outcome)
	if o.Outcome == OK {
		s += fmt.Sprintf(" value %q found %v", o.Value, o.Found)
	}
	return s
}

// Save writes operations as JSON, one a line.
func Save(w io.Writer, ops []Op) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	for _, o := range ops {
		if err := e.Encode(o); err != nil {
			return fmt.Errorf("saving operation %d: %w", o.ID, err)
		}
	}
	return b.Flush()
}

// Load reads what Save wrote.
func Load(r io.Reader) ([]Op, error) {
	var ops []Op
	for d := json.NewDecoder(r); ; {
		var o Op
		if err := d.Decode(&o); err == io.EOF {
			return ops, nil
		} else if err != nil {
			return nil, fmt.Errorf("loading operation %d: %w", len(ops), err)
		}
		ops = append(ops, o)
	}
}
