package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

const (
	// frameHead is the length before each message of an Ask connection, big endian.
	frameHead = 4
	// frameBuffer is what one read of such a connection takes at most, unless a
	// message is larger.
	frameBuffer = 32 << 10
)

// errFrame says that the other end does not speak this protocol.
var errFrame = errors.New("malformed message")

// frames sends and receives messages over a connection of Asks. gRPC would hand
// each to one more goroutine on either side: with Asks over it, a quarter of
// what a read at another node cost went there.
type frames struct {
	conn net.Conn
	in   *bufio.Reader
}

func newFrames(conn net.Conn) *frames {
	return &frames{conn: conn, in: bufio.NewReaderSize(conn, frameBuffer)}
}

// send writes a message, which begins with room for its head.
func (f *frames) send(b []byte) error {
	binary.BigEndian.PutUint32(b, uint32(len(b)-frameHead))
	_, err := f.conn.Write(b)
	return err
}

// receive reads the next message; it belongs to the caller.
func (f *frames) receive() ([]byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxWire {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", errFrame, n, maxWire)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(f.in, b)
	return b, err
}
