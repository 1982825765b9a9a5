package api

import (
	"net"
	"testing"
	"time"
)

// TestLimit: connections beyond the limit wait for one that closes, and a
// waiting Accept ends with the listener.
func TestLimit(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limit(tcp, 1)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	for range 3 {
		conn, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	for range 2 {
		conn := <-accepted
		select {
		case <-accepted:
			t.Error("a second connection at once")
		case <-time.After(20 * time.Millisecond):
		}
		conn.Close()
		conn.Close() // gives its slot back once only
	}
	<-accepted
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, open := <-accepted; open {
		t.Error("a connection after Close")
	}
}
