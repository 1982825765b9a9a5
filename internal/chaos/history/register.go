package history

import (
	"fmt"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is the value of one key.
type register struct {
	value string
	found bool
}

// output is what an operation returned; of an unknown one anything may be.
type output struct {
	value   string
	found   bool
	unknown bool
}

// registerModel is the store as seen through one key.
var registerModel = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, in, out any) (bool, any) {
		want, next := state.(register).step(in.(Op))
		o := out.(output)
		return o.unknown || want.value == o.value && want.found == o.found, next
	},
	DescribeOperation: func(in, out any) string {
		o, result := in.(Op), out.(output)
		if result.unknown {
			return fmt.Sprintf("%s(%s) -> ?", o.Kind, o.Arg)
		}
		return fmt.Sprintf("%s(%s) -> %q %v", o.Kind, o.Arg, result.value, result.found)
	},
	DescribeState: func(state any) string {
		if s := state.(register); s.found {
			return strconv.Quote(s.value)
		}
		return "none"
	},
}

// step is what an operation returns on a state, and the state after it.
func (s register) step(o Op) (output, register) {
	was := output{value: s.value, found: s.found}
	yes := output{value: "0"}
	if s.found {
		yes.value = "1"
	}
	written := register{o.Arg, true}
	switch o.Kind {
	case Get:
		return was, s
	case Exists:
		return yes, s
	case Set:
		return output{}, written
	case SetNX:
		if s.found {
			return output{value: "0"}, s
		}
		return output{value: "1"}, written
	case SetXX:
		if !s.found {
			return output{value: "0"}, s
		}
		return output{value: "1"}, written
	case GetSet:
		return was, written
	case GetDel:
		return was, register{}
	case Del:
		return yes, register{}
	case Append:
		next := register{s.value + o.Arg, true}
		return output{value: strconv.Itoa(len(next.value))}, next
	case Incr:
		n, _ := strconv.ParseInt(s.value, 10, 64)
		by, _ := strconv.ParseInt(o.Arg, 10, 64)
		next := register{strconv.FormatInt(n+by, 10), true}
		return output{value: next.value}, next
	}
	panic("history: no such kind: " + o.Kind)
}

// checkRegister searches for an order of the operations of one key that a
// register allows.
func checkRegister(ops []Op, budget time.Duration) (Verdict, string, porcupine.LinearizationInfo) {
	operations := make([]porcupine.Operation, 0, len(ops))
	for _, o := range prune(ops) {
		operations = append(operations, porcupine.Operation{
			ClientId: o.Client, Input: o, Call: o.Call, Return: o.Return,
			Output: output{o.Value, o.Found, o.Outcome == Unknown},
		})
	}
	result, info := porcupine.CheckOperationsVerbose(registerModel, operations, budget)
	switch result {
	case porcupine.Ok:
		return Legal, "", info
	case porcupine.Illegal:
		return Illegal, "no order of its operations explains what they returned", info
	}
	return Inconclusive, fmt.Sprintf("no order found, nor excluded, in %v", budget), info
}

// prune drops what cannot matter: operations that certainly did not happen,
// reads of unknown result, and, where a key is only set and read, writes of
// unknown outcome whose value nobody saw. Every one kept doubles the search.
func prune(ops []Op) []Op {
	plain, seen := true, make(map[string]bool)
	for _, o := range ops {
		plain = plain && (o.Kind == Get || o.Kind == Set)
		if o.Outcome == OK && o.Kind == Get {
			seen[o.Value] = true
		}
	}
	var kept []Op
	for _, o := range ops {
		unknown := o.Outcome == Unknown
		if o.Outcome == Fail || unknown && (o.Kind.Reads() || plain && !seen[o.Arg]) {
			continue
		}
		kept = append(kept, o)
	}
	return kept
}
