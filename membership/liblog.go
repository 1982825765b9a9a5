package membership

import (
	"bytes"
	"log"
	"log/slog"
)

// libraryLogger takes the library's lines into ours. Its warnings are about
// single packets and refused nodes; what matters of them is in Unheard and
// Conflict, so they are for debugging.
func libraryLogger(l *slog.Logger) *log.Logger { return log.New(lineWriter{l}, "", 0) }

type lineWriter struct{ log *slog.Logger }

func (w lineWriter) Write(line []byte) (int, error) {
	w.log.Debug("gossip", "line", string(bytes.TrimSpace(line)))
	return len(line), nil
}
