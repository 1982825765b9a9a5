package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// exitBound is how long a process may take to go after a signal that ends it:
// the contract's 10 s for SIGTERM, and some for a busy machine.
const exitBound = 15 * time.Second

// Process is one shardkv process that runs or ran.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read after done
}

// start runs the binary with the arguments; its output goes to logFile,
// appended. env is added to this process's environment.
func start(bin, logFile string, env []string, args ...string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &Process{cmd: exec.Command(bin, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Run starts shardkv with arguments of its own, outside of any Cluster, as start
// does; the caller ends it.
func Run(logFile string, env []string, args ...string) (*Process, error) {
	bin, err := Binary()
	if err != nil {
		return nil, err
	}
	return start(bin, logFile, env, args...)
}

// End sends a signal and waits for the end, at most exitBound; it returns the
// exit status, -1 if the signal ended it.
func (p *Process) End(sig syscall.Signal) (int, error) { return p.end(sig) }

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends a signal; a process that is gone already is no fault.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Exited is closed once the process is gone.
func (p *Process) Exited() <-chan struct{} { return p.done }

// ExitCode waits for the end of the process, at most exitBound, and returns
// its exit status; -1 if a signal ended it.
func (p *Process) ExitCode() (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(exitBound):
		return 0, fmt.Errorf("process %d still runs after %v", p.Pid(), exitBound)
	}
}

// end sends the signal and waits for the end.
func (p *Process) end(sig syscall.Signal) (int, error) {
	if err := p.Signal(sig); err != nil {
		return 0, err
	}
	return p.ExitCode()
}

// Binary returns the path of a freshly built shardkv: that of the environment
// variable SHARDKV_BIN, or one built once per test process.
func Binary() (string, error) { return build() }

var build = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("SHARDKV_BIN"); bin != "" {
		return bin, nil
	}
	dir, err := os.MkdirTemp("", "shardkv-bin-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "shardkv")
	if out, err := exec.Command("go", "build", "-o", bin, "shardkv").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
})
