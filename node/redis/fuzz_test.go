package redis

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"shardkv/internal/resp"
	"shardkv/internal/resp/resptest"
)

// script is a connection whose client has sent everything already.
type script struct {
	in   *bytes.Reader
	size int // bytes of one read
	mu   sync.Mutex
	out  bytes.Buffer
	end  chan struct{}
	once sync.Once
}

func (s *script) Read(p []byte) (int, error) { return s.in.Read(p[:min(len(p), s.size)]) }
func (s *script) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}
func (s *script) Close() error                     { s.once.Do(func() { close(s.end) }); return nil }
func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// FuzzConn feeds a connection anything: it must end by itself, answer each
// command once, in well-formed replies, and answer the same however the bytes
// are cut.
func FuzzConn(f *testing.F) {
	for _, c := range resptest.Cases() {
		if len(c.Input) < 500 {
			f.Add(c.Input, uint8(5), c.Unauth)
		}
	}
	for _, cmd := range table {
		f.Add([]byte(cmd.name+" a b c d\r\n"+cmd.name+"\r\n"+frame(cmd.name, "a", "1")), uint8(9), false)
		for _, s := range cmd.subs {
			f.Add([]byte(cmd.name+" "+s.name+"\r\n"+cmd.name+" "+s.name+" a\r\n"), uint8(30), false)
		}
	}
	f.Add([]byte("AUTH secret\r\nHELLO 3\r\nGET a\r\nRESET\r\nGET a\r\nHELLO 3 AUTH default secret\r\nQUIT\r\n"), uint8(60), true)
	open, locked := serve(f, newFake(), nil), serve(f, newFake(), func(c *Config) { c.Password = "secret" })
	f.Fuzz(func(t *testing.T, in []byte, size uint8, unauth bool) {
		s := open
		if unauth {
			s = locked
		}
		k := &script{in: bytes.NewReader(in), size: int(size)%64 + 1, end: make(chan struct{})}
		s.start(k)
		select {
		case <-k.end:
		case <-time.After(patience):
			panic("the connection does not end") // Fatal would wait for it in Cleanup
		}
		got := 0
		out := bufio.NewReader(bytes.NewReader(k.out.Bytes()))
		for {
			_, err := readReply(out)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("malformed reply in %q: %v", k.out.Bytes(), err)
			}
			got++
		}
		if want, most := expected(in, unauth); got > most || got < want {
			t.Fatalf("%d replies to %d … %d commands", got, want, most)
		}
	})
}

// expected is how many replies an input may have: one for each command up to a
// QUIT or what else ends a connection, and one for what breaks the stream.
func expected(in []byte, unauth bool) (least, most int) {
	r := resp.NewReader(bytes.NewReader(in))
	for {
		q, err := r.Next(nil)
		for _, q := range q {
			most++
			if len(q.Args) > 0 {
				if name := strings.ToLower(string(q.Args[0])); name == "quit" || crossProtocol([]byte(name)) {
					unauth = true // an early end: no least number from here on
				}
			}
			if !unauth {
				least++
			}
		}
		var broken *resp.ProtocolError
		if errors.As(err, &broken) {
			most++
		}
		if err != nil {
			return least, most + 1 // limits before AUTH may break it earlier
		}
	}
}
