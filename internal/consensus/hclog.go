package consensus

import (
	"context"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// quietFor is how long a warning of the library is held back after the same
// text was logged: it repeats them with every heartbeat that fails.
const quietFor = 30 * time.Second

// quietTexts bounds the texts remembered; the library has some 80.
const quietTexts = 256

// logger gives the library's lines to slog: its information becomes debug (the
// replica logs its own transitions), its warnings and errors become warnings,
// each text once per quietFor, for neither says that something is lost.
type logger struct {
	to   *slog.Logger
	args []any
	seen *seen
}

type seen struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func newLogger(to *slog.Logger) hclog.Logger {
	return &logger{to: to, seen: &seen{last: map[string]time.Time{}}}
}

func (s *seen) recently(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if last, ok := s.last[text]; ok && now.Sub(last) < quietFor {
		return true
	}
	if len(s.last) < quietTexts {
		s.last[text] = now
	}
	return false
}

func (l *logger) Log(level hclog.Level, msg string, args ...any) {
	to := slog.LevelDebug
	if level >= hclog.Warn && l.to.Enabled(context.Background(), slog.LevelWarn) && !l.seen.recently(msg) {
		to = slog.LevelWarn
	}
	if !l.to.Enabled(context.Background(), to) {
		return
	}
	if len(l.args) > 0 {
		args = append(append([]any{}, l.args...), args...)
	}
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = f[1:]
		}
	}
	l.to.Log(context.Background(), to, "raft: "+msg, args...)
}

func (l *logger) Trace(msg string, args ...any) {}
func (l *logger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *logger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *logger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *logger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *logger) IsTrace() bool { return false }
func (l *logger) IsDebug() bool { return l.to.Enabled(context.Background(), slog.LevelDebug) }
func (l *logger) IsInfo() bool  { return l.IsDebug() }
func (l *logger) IsWarn() bool  { return true }
func (l *logger) IsError() bool { return true }

func (l *logger) ImpliedArgs() []any { return l.args }
func (l *logger) With(args ...any) hclog.Logger {
	return &logger{to: l.to, args: append(append([]any{}, l.args...), args...), seen: l.seen}
}
func (l *logger) Name() string                   { return "raft" }
func (l *logger) Named(string) hclog.Logger      { return l }
func (l *logger) ResetNamed(string) hclog.Logger { return l }
func (l *logger) SetLevel(hclog.Level)           {}
func (l *logger) GetLevel() hclog.Level          { return hclog.Debug }
func (l *logger) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(io.Discard, "", 0)
}
func (l *logger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
