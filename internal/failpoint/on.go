//go:build failpoint

package failpoint

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Enabled says whether points can fire in this build.
const Enabled = true

const (
	environment = "SHARDKV_FAILPOINTS"
	// lookEvery is how old the knowledge of the file may be when a point is
	// passed.
	lookEvery = 10 * time.Millisecond
)

// process is what the points of this process obey.
var process = open(os.Getenv(environment), os.Stderr)

// Hit passes a point; it returns late, or not at all, if the point fires.
func Hit(name string) {
	switch a := process.pass(name, time.Now()); {
	case a.kill:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it takes a moment, in which nothing more may be done here
	case a.delay > 0:
		<-time.After(a.delay)
	}
}

// armed is what has been armed, and what was passed.
type armed struct {
	file string // "" = nothing is read
	tell io.Writer

	mu     sync.Mutex
	looked time.Time
	text   string
	arms   map[string]*arm
	passed map[string]bool
}

func open(text string, tell io.Writer) *armed {
	p := &armed{tell: tell, passed: map[string]bool{}}
	if file, ok := strings.CutPrefix(text, "@"); ok {
		p.file = file
		return p
	}
	p.arm(text)
	return p
}

// arm replaces what is armed.
func (p *armed) arm(text string) {
	arms, err := parse(text)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", environment, err))
	}
	p.text, p.arms = text, arms
}

// pass counts one passage and returns what to do.
func (p *armed) pass(name string, now time.Time) action {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != "" && now.Sub(p.looked) >= lookEvery {
		p.looked = now
		if b, err := os.ReadFile(p.file); err == nil && string(b) != p.text {
			p.arm(string(b))
		}
	}
	if !p.passed[name] {
		if !listed(name) {
			panic(fmt.Sprintf("failpoint %q is not listed", name))
		}
		p.passed[name] = true
		fmt.Fprintf(p.tell, "failpoint: passed %s\n", name)
	}
	a := p.arms[name]
	if a == nil {
		return action{}
	}
	if a.left--; a.left > 0 {
		return action{}
	}
	delete(p.arms, name)
	fmt.Fprintf(p.tell, "failpoint: fired %s\n", a.text)
	return a.action
}
