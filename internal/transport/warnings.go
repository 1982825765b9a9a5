package transport

import (
	"log/slog"
	"sync"
	"time"
)

const (
	warnEvery = 10 * time.Second // the same warning is logged again no sooner
	maxWarned = 256              // different warnings remembered
)

// warnings logs what repeats with every dial only now and then.
type warnings struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[string]time.Time
}

func newWarnings(log *slog.Logger) *warnings {
	return &warnings{log: log, last: make(map[string]time.Time)}
}

func (w *warnings) warn(key, msg string, err error) {
	now := time.Now()
	w.mu.Lock()
	at, known := w.last[key]
	quiet := known && now.Sub(at) < warnEvery
	if !quiet {
		if len(w.last) >= maxWarned {
			clear(w.last)
		}
		w.last[key] = now
	}
	w.mu.Unlock()
	if !quiet {
		w.log.Warn(msg, "reason", err)
	}
}
