package load

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
)

// appendRequest appends the request in the Redis protocol.
func appendRequest(b []byte, r *Request) []byte {
	switch r.Op {
	case OpGet:
		return appendBulk(append(b, "*2\r\n$3\r\nGET\r\n"...), r.Key)
	case OpAppend:
		b = append(b, "*3\r\n$6\r\nAPPEND\r\n"...)
	default:
		b = append(b, "*3\r\n$3\r\nSET\r\n"...)
	}
	return appendBulk(appendBulk(b, r.Key), r.Value)
}

func appendBulk(b, s []byte) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(s)), 10)
	b = append(append(b, "\r\n"...), s...)
	return append(b, "\r\n"...)
}

// serverError is an error reply; the connection is still good.
type serverError string

func (e serverError) Error() string { return string(e) }

var errReply = errors.New("not a reply to this command")

// readReply reads the reply to a request and sets its outcome. err is a fault
// after which the connection must not be used.
func readReply(r *bufio.Reader, q *Request) error {
	kind, line, err := readLine(r)
	if err != nil {
		return err
	}
	switch {
	case kind == '-':
		q.Err = serverError(line)
	case kind == '+' && q.Op == OpSet, kind == ':' && q.Op == OpAppend:
	case kind == '$' && q.Op == OpGet:
		n, err := strconv.Atoi(string(line))
		if err != nil {
			return fmt.Errorf("%w: length %q", errReply, line)
		}
		if q.Miss = n < 0; !q.Miss {
			_, err = r.Discard(n + len("\r\n"))
		}
		return err
	default:
		return fmt.Errorf("%w: %c%s", errReply, kind, line)
	}
	return nil
}

// readLine reads a line without its end; it is valid until the next read.
func readLine(r *bufio.Reader) (kind byte, rest []byte, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 3 {
		return 0, nil, fmt.Errorf("%w: %q", errReply, line)
	}
	return line[0], line[1 : len(line)-2], nil
}

// maxItems bounds the arrays that readAny takes: more than one per slot is none.
const maxItems = 16384

// readAny reads a reply of any shape: string, int64, []any or nil. It serves
// the commands about the cluster, which are few.
func readAny(r *bufio.Reader) (any, error) {
	kind, line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	text := string(line)
	switch kind {
	case '-':
		return nil, serverError(text)
	case '+':
		return text, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || kind != ':' && n > maxItems {
		return nil, fmt.Errorf("%w: %c%s", errReply, kind, text)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		return readBulk(r, int(n))
	}
	items := make([]any, n)
	for i := range items {
		if items[i], err = readAny(r); err != nil {
			return nil, err
		}
	}
	return items, nil
}
