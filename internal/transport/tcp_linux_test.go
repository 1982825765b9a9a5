package transport

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// A host that falls silent is noticed by the kernel, at both ends of a connection.
func TestSilenceIsSetOnBothEnds(t *testing.T) {
	l, err := tcp{}.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := tcp{}.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	for name, conn := range map[string]net.Conn{"dialed": near, "accepted": far} {
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err = raw.Control(func(fd uintptr) {
			timeout, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
			if err != nil || time.Duration(timeout)*time.Millisecond != silence {
				t.Errorf("%s: user timeout %d ms, %v", name, timeout, err)
			}
			alive, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
			if err != nil || alive == 0 {
				t.Errorf("%s: keepalive %d, %v", name, alive, err)
			}
			idle, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
			if err != nil || time.Duration(idle)*time.Second != keepaliveIdle {
				t.Errorf("%s: first probe after %d s, %v", name, idle, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
