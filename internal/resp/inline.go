package resp

import (
	"bytes"
	"fmt"
)

// inline takes a command typed as a line off the buffer; more: the line has not
// all arrived. An empty line is neither.
func (r *Reader) inline() (whole, more bool, err error) {
	p := &r.parse
	limit := MaxInline
	if r.unauth {
		limit = UnauthInline
	}
	rest := r.buf[r.pos:]
	i := bytes.IndexByte(rest[p.scanned:], '\n')
	if i < 0 {
		if p.scanned = len(rest); len(rest) > limit {
			return false, false, &ProtocolError{"too big inline request"}
		}
		return false, true, nil
	}
	i += p.scanned
	p.scanned = 0
	if i > limit {
		return false, false, &ProtocolError{"too big inline request"}
	}
	line := rest[:i]
	if i > 0 && line[i-1] == '\r' {
		line = line[:i-1]
	}
	first := len(p.spans)
	if !r.split(line, r.pos) {
		return false, false, &ProtocolError{"unbalanced quotes in request"}
	}
	r.pos += i + 1
	switch n := len(p.spans) - first; {
	case n == 0: // an empty line is no command
		r.from = p.begin(r.pos)
		return false, false, nil
	case n > MaxArgs:
		r.skip(fmt.Sprintf("ERR command of %d arguments, at most %d are allowed", n, MaxArgs))
	}
	r.finish()
	return true, false, nil
}

// split finds the arguments of a line as Redis's sdssplitargs does: blanks
// between them, "…" with \n \r \t \b \a \xHH and \any, '…' with \'. Unescaping
// only shortens, so it is done in place; base is the line's offset.
func (r *Reader) split(line []byte, base int) bool {
	for i := 0; ; {
		for i < len(line) && blank(line[i]) {
			i++
		}
		if i == len(line) {
			return true
		}
		start, out := i, i
		for i < len(line) && !blank(line[i]) {
			if q := line[i]; q == '"' || q == '\'' {
				var closed bool
				if i, out, closed = unquote(line, i+1, out, q); !closed {
					return false
				}
				if i < len(line) && !blank(line[i]) { // "a"b
					return false
				}
				break
			}
			line[out] = line[i]
			out++
			i++
		}
		r.parse.spans = append(r.parse.spans, span{base + start, base + out})
	}
}

// unquote copies a quoted part that begins at in to out, and returns where it
// stopped reading and writing and whether the quote was closed.
func unquote(line []byte, in, out int, quote byte) (int, int, bool) {
	for in < len(line) {
		c := line[in]
		in++
		switch {
		case c == quote:
			return in, out, true
		case c == '\\' && quote == '\'' && in < len(line) && line[in] == '\'':
			c = '\''
			in++
		case c == '\\' && quote == '"' && in+2 < len(line) && line[in] == 'x' && hex(line[in+1]) >= 0 && hex(line[in+2]) >= 0:
			c = byte(hex(line[in+1])<<4 | hex(line[in+2]))
			in += 3
		case c == '\\' && quote == '"' && in < len(line):
			c = unescape(line[in])
			in++
		}
		line[out] = c
		out++
	}
	return in, out, false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func hex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func blank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
