//go:build chaos

package netns

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pings says whether a packet goes from one node to the other and back.
func pings(from, to *Node) bool {
	args := append(from.Wrap(), "bash", "-c", "exec 3<>/dev/tcp/"+to.Addr()+"/9") // refused at once, unless packets are dropped
	cmd := exec.Command("timeout", append([]string{"0.5"}, args...)...)
	out, _ := cmd.CombinedOutput()
	return strings.Contains(string(out), "refused")
}

// TestLinks holds each fault to what it says of itself: if this fails, every
// verdict of a run under partitions means nothing.
func TestLinks(t *testing.T) {
	n, err := Open()
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	a, err := n.Add()
	must(t, err)
	b, err := n.Add()
	must(t, err)
	want := func(what string, ab, ba bool) {
		t.Helper()
		if got := pings(a, b); got != ab {
			t.Errorf("%s: a reaches b: %v", what, got)
		}
		if got := pings(b, a); got != ba {
			t.Errorf("%s: b reaches a: %v", what, got)
		}
	}
	want("new", true, true)
	must(t, n.Part([]*Node{a}, []*Node{b}))
	want("parted", false, false)
	must(t, a.Readdress())
	want("parted and readdressed", false, false)
	must(t, n.Heal())
	want("healed", true, true)
	must(t, n.Loss(a, 100))
	want("all lost", false, false)
	must(t, n.Heal())
	must(t, n.Unplug(b))
	if c, err := net.DialTimeout("tcp", b.Addr()+":9", 300*time.Millisecond); err == nil || strings.Contains(err.Error(), "refused") {
		t.Errorf("unplugged: this process reaches b: %v %v", c, err)
	}
	must(t, n.Plug(b))
	must(t, n.Throttle(a, 256))
	want("throttled", true, true)
	must(t, n.Unthrottle(a))
	oneWay(t, n, a, b)
}

// oneWay sees datagrams pass in the direction that is not cut, and no other.
func oneWay(t *testing.T, n *Net, a, b *Node) {
	t.Helper()
	must(t, n.Cut(a, b))
	const datagrams = 50
	for _, c := range []struct {
		from, to *Node
		passes   bool
	}{{b, a, true}, {a, b, false}} {
		before := received(t, c.to)
		send := fmt.Sprintf("for i in {1..%d}; do echo x > /dev/udp/%s/9; done; true", datagrams, c.to.Addr())
		must(t, exec.Command(c.from.Wrap()[0], append(c.from.Wrap()[1:], "bash", "-c", send)...).Run())
		if got := received(t, c.to) - before; got >= datagrams != c.passes {
			t.Errorf("%d of %d datagrams passed to %s, want them to pass: %v", got, datagrams, c.to.Addr(), c.passes)
		}
	}
}

// received counts the packets that came in at the node.
func received(t *testing.T, n *Node) int {
	t.Helper()
	out, err := exec.Command(n.Wrap()[0], append(n.Wrap()[1:], "cat", "/sys/class/net/eth0/statistics/rx_packets")...).Output()
	must(t, err)
	count, err := strconv.Atoi(strings.TrimSpace(string(out)))
	must(t, err)
	return count
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
