package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
)

// wireOf is a connection that only reads, from bytes.
type wireOf struct {
	net.Conn
	io.Reader
}

func (w wireOf) Read(p []byte) (int, error) { return w.Reader.Read(p) }

func framesOf(b []byte) *frames { return newFrames(wireOf{Reader: bytes.NewReader(b)}) }

func message(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// allocated returns the bytes that this process has allocated since it began.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestFrames: messages come out as they went in, and what is cut, or announces
// more than the limit, is an error before memory is taken for it.
func TestFrames(t *testing.T) {
	large := string(bytes.Repeat([]byte{7}, 3*frameBuffer))
	f := framesOf(append(append(message("one"), message("")...), message(large)...))
	for _, want := range []string{"one", "", large} {
		if got, err := f.receive(); err != nil || string(got) != want {
			t.Fatalf("got %d bytes, %v; want %d", len(got), err, len(want))
		}
	}
	if _, err := f.receive(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	if _, err := framesOf(message(large)[:50_000]).receive(); err != io.ErrUnexpectedEOF {
		t.Errorf("a cut message: %v", err)
	}
	huge := binary.BigEndian.AppendUint32(nil, maxWire+1)
	before := allocated()
	if _, err := framesOf(huge).receive(); !errors.Is(err, errFrame) {
		t.Errorf("a huge message: %v", err)
	}
	if n := allocated() - before; n > maxWire/2 {
		t.Errorf("%d bytes taken for a message that is refused", n)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(append(message("one"), message("two")...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		in, rest := framesOf(b), b
		for {
			got, err := in.receive()
			if err != nil {
				return
			}
			if len(rest) < frameHead+len(got) || !bytes.Equal(rest[frameHead:][:len(got)], got) {
				t.Fatalf("a message that was not sent: %q", got)
			}
			rest = rest[frameHead+len(got):]
		}
	})
}
