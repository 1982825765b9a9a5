package harness

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range that the kernel gives to outgoing
// connections (32768 and up), so that one chosen for a node is not somebody
// else's when the node starts, or starts again.
const (
	firstPort = 10_000
	lastPort  = 32_000
	portTries = 1_000
)

var errNoPort = errors.New("no free port found")

// taken holds the ports that this process has chosen.
var taken = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freeAddrs returns n addresses whose ports are free for TCP and UDP.
func freeAddrs(host string, n int) (addrs []string, err error) {
	taken.Lock()
	defer taken.Unlock()
	for range portTries {
		if len(addrs) == n {
			return addrs, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		if addr := net.JoinHostPort(host, strconv.Itoa(port)); !taken.ports[port] && free(addr) {
			taken.ports[port] = true
			addrs = append(addrs, addr)
		}
	}
	return nil, errNoPort
}

// FreeAddrs returns n addresses of a host whose ports are free for TCP and UDP,
// and that no other node of this process was given.
func FreeAddrs(host string, n int) ([]string, error) { return freeAddrs(host, n) }

// FreeRow returns the first port of a row of n that are all free on a host,
// each offset from the first by what at says.
func FreeRow(host string, n int, at func(i int) int) (first int, err error) {
	taken.Lock()
	defer taken.Unlock()
	for range portTries {
		first = firstPort + rand.IntN(lastPort-firstPort-at(n-1))
		if RowIsFree(host, first, n, at) {
			return first, nil
		}
	}
	return 0, errNoPort
}

// RowIsFree says whether a row of ports is free for TCP and UDP.
func RowIsFree(host string, first, n int, at func(i int) int) bool {
	for i := range n {
		if !free(net.JoinHostPort(host, strconv.Itoa(first+at(i)))) {
			return false
		}
	}
	return true
}

func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	return u.Close() == nil
}
