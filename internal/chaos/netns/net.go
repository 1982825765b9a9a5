package netns

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// prefix of the names of namespaces; the pid and a number follow.
const prefix = "skv"

// made counts the bridges and namespaces of this process.
var made atomic.Int64

// subnetTries bounds the search for an unused subnet.
const subnetTries = 50

// ErrNeedsRoot says that this process may not make network namespaces.
var ErrNeedsRoot = errors.New("network namespaces need root: run this test as root")

// Net is a bridge with nodes on it. Its methods may be called from any
// goroutine.
type Net struct {
	bridge string
	subnet string // "10.x.y."

	mu    sync.Mutex
	nodes []*Node
	addrs int // given out so far
}

// Node is one namespace on the bridge.
type Node struct {
	net   *Net
	index int64
	addr  string
	rules
}

// rules are what keeps a node's packets from passing.
type rules struct {
	drop []*Node // nothing goes out to these
	loss int     // percent of what goes out
}

// Open makes the bridge; its own address lets this process reach every node.
func Open() (*Net, error) {
	if os.Geteuid() != 0 {
		return nil, ErrNeedsRoot
	}
	for _, tool := range []string{"ip", "nft", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, err
		}
	}
	if err := sweep(); err != nil {
		return nil, fmt.Errorf("removing what an earlier run left: %w", err)
	}
	n := &Net{bridge: fmt.Sprintf("%sb%d-%d", prefix, os.Getpid(), made.Add(1)), addrs: 10}
	var err error
	if n.subnet, err = unusedSubnet(); err != nil {
		return nil, err
	}
	err = all(
		"ip link add "+n.bridge+" type bridge",
		"ip addr add "+n.subnet+"1/24 dev "+n.bridge,
		"ip link set "+n.bridge+" up",
	)
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func unusedSubnet() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for range subnetTries {
		subnet := fmt.Sprintf("10.%d.%d.", 200+rand.IntN(50), rand.IntN(250))
		if !slices.ContainsFunc(addrs, func(a net.Addr) bool { return strings.HasPrefix(a.String(), subnet) }) {
			return subnet, nil
		}
	}
	return "", errors.New("no unused subnet found")
}

var (
	ofNamespace = regexp.MustCompile(`^` + prefix + `(\d+)-\d+$`)
	ofBridge    = regexp.MustCompile(`^` + prefix + `b(\d+)-\d+$`)
)

// sweep removes namespaces and bridges whose process is gone.
func sweep() error {
	list := func(args ...string) []string {
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			return nil
		}
		return strings.Split(string(out), "\n")
	}
	orphaned := func(name string, of *regexp.Regexp) bool {
		m := of.FindStringSubmatch(name)
		if m == nil {
			return false
		}
		_, err := os.Stat("/proc/" + m[1])
		return errors.Is(err, os.ErrNotExist)
	}
	var errs []error
	for _, line := range list("ip", "netns", "list") {
		if name, _, _ := strings.Cut(line, " "); orphaned(name, ofNamespace) {
			errs = append(errs, all("ip netns del "+name))
		}
	}
	for _, line := range list("ip", "-br", "link", "show", "type", "bridge") {
		if name, _, _ := strings.Cut(line, " "); orphaned(name, ofBridge) {
			errs = append(errs, all("ip link del "+name))
		}
	}
	return errors.Join(errs...)
}

// Add makes one more namespace.
func (n *Net) Add() (*Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	node := &Node{net: n, index: made.Add(1)}
	n.nodes = append(n.nodes, node)
	ns, port := node.Namespace(), node.port()
	err := all(
		"ip netns add "+ns,
		"ip link add "+port+" type veth peer name eth0 netns "+ns,
		"ip link set "+port+" master "+n.bridge+" up",
		"ip -n "+ns+" link set lo up",
		"ip -n "+ns+" link set eth0 up",
	)
	if err != nil {
		return nil, err
	}
	return node, node.readdress()
}

// Close removes everything; the processes in the namespaces must be gone.
func (n *Net) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var lines []string
	for _, node := range n.nodes {
		lines = append(lines, "ip link del "+node.port(), "ip netns del "+node.Namespace())
	}
	n.nodes = nil
	return each(append(lines, "ip link del "+n.bridge)...)
}

// Namespace is the namespace's name.
func (n *Node) Namespace() string { return fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), n.index) }

// port is the name of the bridge's end of the node's cable.
func (n *Node) port() string { return fmt.Sprintf("%s%d.%d", prefix, os.Getpid(), n.index) }

// Wrap is the command under which a process starts in the namespace.
func (n *Node) Wrap() []string { return []string{"ip", "netns", "exec", n.Namespace()} }

// Addr is the node's address.
func (n *Node) Addr() string {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	return n.addr
}

// Readdress gives the node an address that no node had before, in place of its
// own.
func (n *Node) Readdress() error {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	if err := n.readdress(); err != nil {
		return err
	}
	return n.net.apply()
}

func (n *Node) readdress() error {
	n.net.addrs++
	if n.net.addrs > 250 {
		return errors.New("all addresses of the subnet were given out")
	}
	n.addr = n.net.subnet + strconv.Itoa(n.net.addrs)
	return all(
		"ip -n "+n.Namespace()+" addr flush dev eth0",
		"ip -n "+n.Namespace()+" addr add "+n.addr+"/24 dev eth0",
	)
}
