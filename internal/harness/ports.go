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
