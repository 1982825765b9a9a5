package resp

import (
	"bytes"
	"fmt"
)

// parser is the state between two bytes of a command. Offsets are into the
// reader's buffer, so a command that arrives in pieces is parsed once.
type parser struct {
	spans []span // arguments of the commands of this batch, then of the one under way
	ends  []end  // the whole commands of this batch

	args    int    // arguments of the command under way still to come; 0 between commands
	bulk    int    // bytes of the argument under way still to come; -1 = its header comes next
	size    int    // bytes of its arguments so far, as announced
	scanned int    // bytes of the line at pos known to hold no line feed
	refusal string // why the command under way is being skipped
}

type span struct{ start, end int }

type end struct {
	spans   int // spans up to here
	refusal string
}

// drop forgets the commands of the batch, not the one under way.
func (p *parser) drop() {
	if len(p.ends) > 0 {
		done := p.ends[len(p.ends)-1].spans
		p.spans = append(p.spans[:0], p.spans[done:]...)
	}
	p.ends = p.ends[:0]
}

// begin is the offset of the first byte that the parser still needs.
func (p *parser) begin(pos int) int {
	if len(p.spans) > 0 {
		return p.spans[0].start
	}
	return pos
}

// shift moves all offsets down by n.
func (p *parser) shift(n int) {
	for i := range p.spans {
		p.spans[i].start -= n
		p.spans[i].end -= n
	}
}

// missing is how many bytes from the parse position on the argument under way
// needs, its line end included.
func (p *parser) missing() int {
	if p.args > 0 && p.bulk >= 0 && p.refusal == "" {
		return p.bulk + 2
	}
	return 0
}

// step parses on from r.pos until a command is whole (true) or the bytes end.
func (r *Reader) step() (whole bool, err error) {
	p := &r.parse
	for {
		switch {
		case p.args == 0 && r.pos == len(r.buf):
			return false, nil
		case p.args == 0 && r.buf[r.pos] != '*':
			whole, more, err := r.inline()
			if err != nil || whole || more {
				return whole, err
			}
		case p.args == 0:
			line, err := r.line("too big mbulk count string")
			if line == nil || err != nil {
				return false, err
			}
			if err := r.count(line[1:]); err != nil {
				return false, err
			}
		case p.bulk < 0:
			line, err := r.line("too big bulk count string")
			if line == nil || err != nil {
				return false, err
			}
			if err := r.length(line); err != nil {
				return false, err
			}
		default:
			whole, more, err := r.body()
			if err != nil || whole || more {
				return whole, err
			}
		}
	}
}

// line takes a header line off the buffer; nil if it has not all arrived.
func (r *Reader) line(tooLong string) ([]byte, error) {
	rest := r.buf[r.pos:]
	i := bytes.IndexByte(rest[:min(len(rest), maxHeader)], '\n')
	switch {
	case i < 0 && len(rest) >= maxHeader:
		return nil, &ProtocolError{tooLong}
	case i < 0:
		return nil, nil
	case i == 0 || rest[i-1] != '\r':
		return nil, &ProtocolError{"line feed without carriage return"}
	}
	r.pos += i + 1
	return rest[:i-1], nil
}

// count begins a command of that many arguments.
func (r *Reader) count(digits []byte) error {
	p := &r.parse
	n, ok := number(digits)
	if !ok || n < 0 || n > MaxMultibulk {
		return &ProtocolError{"invalid multibulk length"}
	}
	if r.unauth && n > UnauthArgs {
		return &ProtocolError{"unauthenticated multibulk length"}
	}
	if n == 0 { // Redis takes it for no command at all
		r.from = p.begin(r.pos)
		return nil
	}
	p.args, p.bulk = n, -1
	if n > MaxArgs {
		r.skip(fmt.Sprintf("ERR command of %d arguments, at most %d are allowed", n, MaxArgs))
	}
	return nil
}

// length begins an argument of that many bytes.
func (r *Reader) length(line []byte) error {
	p := &r.parse
	if len(line) == 0 || line[0] != '$' {
		return &ProtocolError{"expected '$', got " + quoteFirst(line)}
	}
	n, ok := number(line[1:])
	if !ok || n < 0 || n > MaxBulk {
		return &ProtocolError{"invalid bulk length"}
	}
	if r.unauth && n > UnauthBulk {
		return &ProtocolError{"unauthenticated bulk length"}
	}
	p.bulk = n
	p.size += n
	if p.size > MaxSkip {
		return &ProtocolError{"command too large to skip"}
	}
	if p.refusal == "" && p.size > MaxCommand {
		r.skip(fmt.Sprintf("ERR command larger than %d bytes", MaxCommand))
	}
	return nil
}

// skip drops the command under way, what has arrived of it and what comes.
func (r *Reader) skip(why string) {
	p := &r.parse
	p.refusal = why
	done := 0
	if len(p.ends) > 0 {
		done = p.ends[len(p.ends)-1].spans
	}
	p.spans = p.spans[:done]
	r.from = p.begin(r.pos)
}

// body takes an argument off the buffer; more: it has not all arrived.
func (r *Reader) body() (whole, more bool, err error) {
	p := &r.parse
	rest := r.buf[r.pos:]
	if p.refusal != "" { // let go of what is here
		n := min(p.bulk, len(rest))
		p.bulk -= n
		r.pos += n
		rest = rest[n:]
		r.from = p.begin(r.pos)
	}
	if len(rest) < p.bulk+2 {
		return false, true, nil
	}
	if rest[p.bulk] != '\r' || rest[p.bulk+1] != '\n' {
		return false, false, &ProtocolError{"argument does not end where its length says"}
	}
	if p.refusal == "" {
		p.spans = append(p.spans, span{r.pos, r.pos + p.bulk})
	}
	r.pos += p.bulk + 2
	p.bulk = -1
	if p.args--; p.args > 0 {
		return false, false, nil
	}
	r.finish()
	return true, false, nil
}

// finish ends the command under way.
func (r *Reader) finish() {
	p := &r.parse
	p.ends = append(p.ends, end{len(p.spans), p.refusal})
	p.args, p.size, p.refusal = 0, 0, ""
	r.from = p.begin(r.pos)
}

// number reads a decimal as Redis's string2ll does: no sign but '-', no zeros
// in front, no spaces. More digits than any limit has are not a number.
func number(s []byte) (int, bool) {
	negative := len(s) > 1 && s[0] == '-'
	if negative {
		s = s[1:]
	}
	if len(s) == 0 || len(s) > 12 || s[0] == '0' && (len(s) > 1 || negative) {
		return 0, false
	}
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// quoteFirst names the first byte of a line, safely.
func quoteFirst(line []byte) string {
	switch {
	case len(line) == 0:
		return "an empty line"
	case line[0] < ' ' || line[0] > '~':
		return fmt.Sprintf("'\\x%02x'", line[0])
	}
	return "'" + string(line[:1]) + "'"
}
