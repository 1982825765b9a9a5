// Package resptest holds the table of malformed and oversized inputs of the
// Redis protocol with the answers they must get, for tests of the reader, of
// the server, and of a whole node over the wire.
//
// It must not know any of them.
package resptest

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// End says what becomes of the connection after an input.
type End string

// The ends of a case.
const (
	Close End = "close" // the server answers and closes
	Keep  End = "keep"  // the connection goes on
	Wait  End = "wait"  // incomplete: nothing is answered, and nothing when the client hangs up
)

// Case is one input and what must come of it.
type Case struct {
	Line   int  // in malformed.txt
	Unauth bool // a password is set and was not given
	Input  []byte
	End    End
	Reply  string // the whole error reply without '-' and line end; "" = none
}

//go:embed malformed.txt
var table string

// Cases returns the table; a fault in it panics, since it is part of the tests.
func Cases() []Case {
	var all []Case
	for i, line := range strings.Split(table, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		c, err := parse(line)
		if err != nil {
			panic(fmt.Sprintf("malformed.txt:%d: %v", i+1, err))
		}
		c.Line = i + 1
		all = append(all, c)
	}
	return all
}

// parse reads one line: [unauth] "input"[*times]… => end [reply].
func parse(line string) (Case, error) {
	c := Case{}
	line, c.Unauth = strings.CutPrefix(line, "unauth ")
	for !strings.HasPrefix(line, "=>") {
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			return c, fmt.Errorf("%w at %.20q", err, line)
		}
		part, err := strconv.Unquote(quoted)
		if err != nil {
			return c, err
		}
		line = line[len(quoted):]
		times := 1
		if rest, ok := strings.CutPrefix(line, "*"); ok {
			digits, tail, _ := strings.Cut(rest, " ")
			if times, err = strconv.Atoi(digits); err != nil {
				return c, err
			}
			line = tail
		}
		c.Input = append(c.Input, strings.Repeat(part, times)...)
		line = strings.TrimSpace(line)
	}
	end, reply, _ := strings.Cut(strings.TrimSpace(line[2:]), " ")
	c.End, c.Reply = End(end), strings.TrimSpace(reply)
	if c.End != Close && c.End != Keep && c.End != Wait {
		return c, fmt.Errorf("end %q", end)
	}
	return c, nil
}
