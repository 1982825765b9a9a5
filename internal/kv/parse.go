package kv

import (
	"fmt"
	"strconv"
	"strings"
)

// Refusal is why Parse does not accept a command.
type Refusal struct{ Text string } // the whole error reply, beginning with its code

func (r *Refusal) Error() string { return r.Text }

// Texts of refusals, as Redis 7 words them; limits of our own at the end.
const (
	textSyntax    = "ERR syntax error"
	textNotInt    = "ERR value is not an integer or out of range"
	textNotFloat  = "ERR value is not a valid float"
	textOverflow  = "ERR increment or decrement would overflow"
	textDecrement = "ERR decrement would overflow"
	textNaN       = "ERR increment would produce NaN or Infinity"
	textOffset    = "ERR offset is out of range"
	textNXAlone   = "ERR NX and XX, GT or LT options at the same time are not compatible"
	textGTLT      = "ERR GT and LT options at the same time are not compatible"
)

var (
	textEmptyKey  = "ERR key is empty"
	textKeySize   = "ERR key exceeds maximum allowed size (" + strconv.Itoa(MaxKey) + " bytes)"
	textValueSize = "ERR string exceeds maximum allowed size (" + strconv.Itoa(MaxValue) + " bytes)"
	textTooMany   = "ERR too many keys in one command (at most " + strconv.Itoa(MaxKeys) + ")"
	textArgs      = "ERR too many arguments in one command (at most " + strconv.Itoa(MaxArgs) + ")"
	textCommand   = "ERR command exceeds maximum allowed size (" + strconv.Itoa(MaxCommand) + " bytes)"
	textReplySize = "ERR reply exceeds maximum allowed size (" + strconv.Itoa(MaxReply) + " bytes)"
)

// Parse reads a command as a client sent it, the name first, and checks all
// that can be checked without the data: name, number of arguments, options,
// numbers, limits. An error is a *Refusal. The Command aliases args.
func Parse(args [][]byte) (Command, error) {
	if len(args) == 0 {
		return Command{}, &Refusal{"ERR empty command"}
	}
	op := opOf(args[0])
	if op == 0 {
		return Command{}, unknownCommand(args)
	}
	c, s := Command{op, args[1:]}, op.spec()
	if !s.fits(len(c.Args)) {
		if len(c.Args) > MaxArgs {
			return Command{}, &Refusal{tooManyText(s)}
		}
		return Command{}, &Refusal{"ERR wrong number of arguments for '" + s.name + "' command"}
	}
	if text := c.checkLimits(s); text != "" {
		return Command{}, &Refusal{text}
	}
	if text := c.check(); text != "" {
		return Command{}, &Refusal{text}
	}
	return c, nil
}

func tooManyText(s *spec) string {
	if s.keys == firstKey {
		return textArgs
	}
	return textTooMany
}

// Limits of what an error quotes of its command, those of Redis.
const maxQuoted = 128

func unknownCommand(args [][]byte) *Refusal {
	var rest strings.Builder
	for _, a := range args[1:] {
		if rest.Len() >= maxQuoted {
			break
		}
		fmt.Fprintf(&rest, "'%.*s' ", maxQuoted-rest.Len(), a)
	}
	return &Refusal{oneLine(fmt.Sprintf("ERR unknown command '%.*s', with args beginning with: %s", maxQuoted, args[0], rest.String()))}
}

// oneLine keeps what a client sent from breaking the line of an error reply.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return ' '
		}
		return r
	}, text)
}

func (c Command) checkLimits(s *spec) string {
	size := 0
	for _, a := range c.Args {
		size += len(a)
	}
	if size > MaxCommand {
		return textCommand
	}
	if s.value > 0 && len(c.Args[s.value]) > MaxValue {
		return textValueSize
	}
	step := c.step()
	if step == 0 {
		return checkKey(c.Args[0])
	}
	if len(c.Args)/step > MaxKeys {
		return textTooMany
	}
	for i := 0; i < len(c.Args); i += step {
		if text := checkKey(c.Args[i]); text != "" {
			return text
		}
		if step == 2 && len(c.Args[i+1]) > MaxValue {
			return textValueSize
		}
	}
	return ""
}

func checkKey(key []byte) string {
	switch {
	case len(key) == 0:
		return textEmptyKey
	case len(key) > MaxKey:
		return textKeySize
	}
	return ""
}

// check refuses what no state of the data could accept.
func (c Command) check() (text string) {
	switch c.Op {
	case OpSet:
		_, text = parseOptions(c.Op, c.Args[2:])
	case OpGetEx:
		_, text = parseOptions(c.Op, c.Args[1:])
	case OpSetEx, OpPSetEx:
		_, text = parseExpire(c.Op, c.Args[1])
	case OpExpire, OpPExpire, OpExpireAt, OpPExpireAt:
		_, text = parseExpireOptions(c)
	case OpIncrBy:
		_, text = parseNumber(c.Args[1])
	case OpDecrBy:
		_, text = parseDecrement(c.Args[1])
	case OpIncrByFloat:
		_, text = parseFloat(c.Args[1])
	case OpGetRange:
		if _, text = parseNumber(c.Args[1]); text == "" {
			_, text = parseNumber(c.Args[2])
		}
	case OpSetRange:
		_, text = parseOffset(c.Args[1], c.Args[2])
	}
	return text
}
