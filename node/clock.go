package node

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// offsetEnv shifts the wall clock that this process sees, for tests: a Go
	// duration, or @FILE with one, read again every second.
	offsetEnv   = "SHARDKV_CLOCK_OFFSET"
	offsetEvery = time.Second
)

// wallClock is the wall clock as this node sees it.
type wallClock struct {
	file string // "" = the offset is fixed

	mu     sync.Mutex
	offset time.Duration
	read   time.Time
}

func newWallClock(setting string) (*wallClock, error) {
	c := &wallClock{}
	if setting == "" {
		return c, nil
	}
	if file, ok := strings.CutPrefix(setting, "@"); ok {
		c.file = file
	} else if d, err := time.ParseDuration(setting); err == nil {
		c.offset = d
		return c, nil
	} else {
		return nil, fmt.Errorf("%s: %w", offsetEnv, err)
	}
	if err := c.reread(); err != nil {
		return nil, fmt.Errorf("%s: %w", offsetEnv, err)
	}
	return c, nil
}

// reread takes the offset from the file; the old one stays on an error, since
// the file may be half written.
func (c *wallClock) reread() error {
	b, err := os.ReadFile(c.file)
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(strings.TrimSpace(string(b)))
	if err != nil {
		return err
	}
	c.offset = d
	return nil
}

// Now returns the wall clock in ms since the Unix epoch.
func (c *wallClock) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.file != "" && now.Sub(c.read) >= offsetEvery {
		c.read = now
		_ = c.reread()
	}
	return now.Add(c.offset).UnixMilli()
}
