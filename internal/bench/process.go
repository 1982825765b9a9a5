package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	stopBound = 20 * time.Second // for a SIGTERM; then SIGKILL
	logTail   = 600              // bytes of each log in an error
	// Ports stay below those that the kernel gives to outgoing connections
	// (32768 and up), with redisBus added, too.
	firstPort = 10_000
	lastPort  = 22_000
	redisBus  = 10_000
	portTries = 1_000
)

// servers is one started set of server processes.
type servers interface {
	addrs() []string // for clients
	pids() []int
	logs() string // their last lines
	stop() error
}

// starters start each kind of servers in an empty folder. What they return
// must be stopped even beside an error.
var starters = map[string]func(ctx context.Context, t tools, dir string) (servers, error){
	"shardkv":         func(ctx context.Context, t tools, dir string) (servers, error) { return startShardkv(t, dir, 3) },
	"shardkv-1group":  func(ctx context.Context, t tools, dir string) (servers, error) { return startShardkv(t, dir, 1) },
	"shardkv-9groups": func(ctx context.Context, t tools, dir string) (servers, error) { return startShardkv(t, dir, 9) },
	"etcd":            startEtcd,
	"nats":            startNATS,
	"redis":           startRedis,
}

// processes is a set of servers that this program started.
type processes struct {
	dir     string
	clients []string
	running []*process
}

type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

func (p *processes) addrs() []string { return p.clients }

func (p *processes) pids() (list []int) {
	for _, r := range p.running {
		list = append(list, r.cmd.Process.Pid)
	}
	return list
}

// start runs a server in the background with its output in a file.
func (p *processes) start(name, bin string, args ...string) error {
	r := &process{cmd: exec.Command(bin, args...), log: filepath.Join(p.dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(r.log)
	if err != nil {
		return err
	}
	defer log.Close()
	r.cmd.Stdout, r.cmd.Stderr, r.cmd.Dir = log, log, p.dir
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p.running = append(p.running, r)
	go func() {
		_ = r.cmd.Wait() // how it ended is in its log
		close(r.done)
	}()
	return nil
}

func (p *processes) logs() string {
	var b strings.Builder
	for _, r := range p.running {
		text, err := os.ReadFile(r.log)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&b, "--- %s\n%s\n", filepath.Base(r.log), text[max(0, len(text)-logTail):])
	}
	return b.String()
}

// stop ends every process by its pid and waits for it.
func (p *processes) stop() error {
	var errs []error
	for _, r := range p.running {
		errs = append(errs, signalProcess(r, syscall.SIGTERM))
	}
	late := time.After(stopBound)
	for _, r := range p.running {
		select {
		case <-r.done:
		case <-late:
			late = time.After(0) // for the others, too
			errs = append(errs, signalProcess(r, syscall.SIGKILL))
			<-r.done
		}
	}
	p.running = nil
	return errors.Join(errs...)
}

func signalProcess(r *process, sig syscall.Signal) error {
	if err := r.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

var errNoPort = errors.New("no free port found")

// freePorts returns n different ports at which, and at whose Redis bus port,
// nobody listens.
func freePorts(n int) (ports []int, err error) {
	seen := map[int]bool{}
	for range portTries {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !seen[port] && listens(port) && listens(port+redisBus) {
			seen[port] = true
			ports = append(ports, port)
		}
	}
	return nil, errNoPort
}

func listens(port int) bool {
	l, err := net.Listen("tcp", local(port))
	return err == nil && l.Close() == nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
