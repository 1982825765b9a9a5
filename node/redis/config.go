package redis

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardkv/internal/resp"
)

// Limits of the client port.
const (
	MaxConns      = 10_000           // connections at once, unless configured (Redis's maxclients)
	OutputLimit   = 16 << 20         // bytes that wait for one client to read them
	WriteTimeout  = 10 * time.Second // for a client to take writeChunk bytes; then it is cut off
	DrainTimeout  = 3 * time.Second  // Close waits so long for replies in flight
	MaxScanCount  = 10_000           // keys that one SCAN asks of the Backend; a larger COUNT means this
	MaxClientName = 256              // bytes of CLIENT SETNAME and SETINFO values

	writeChunk    = 64 << 10               // bytes under one write deadline
	batchReplies  = 4 << 20                // replies of one batch beyond which the next ones are made smaller
	firstBatch    = 4                      // commands of a connection's first batch, whose replies may be of any size
	keptCommands  = 64                     // commands that an idle connection keeps room for
	lingerBytes   = 64 << 20               // read and dropped after a last reply, so that the reply arrives
	lingerTime    = time.Second            // the same in time
	lingerAtClose = 100 * time.Millisecond // the same when the server closes
	hurryTime     = 300 * time.Millisecond // from the end of DrainTimeout to closing by force
	acceptPause   = 50 * time.Millisecond  // after a failed accept (no descriptors left)
	keepAliveIdle = 60 * time.Second       // TCP keepalive: first probe after
	keepAliveGap  = 15 * time.Second       // then every
	keepAliveMax  = 4                      // unanswered ones end the connection
)

// Version is the version of Redis whose commands and error texts are followed;
// clients choose their commands by it.
const Version = "7.2.0"

// Config is how a Server is made. It is not changed after Open.
type Config struct {
	Listen   string  // host:port of the client port
	Backend  Backend // executes what needs data
	Password string  // "" = no AUTH needed
	Redirect bool    // answer MOVED for keys led elsewhere
	MaxConns int     // 0 = MaxConns

	// OutputTotal bounds the replies that are held for all clients together, in
	// bytes; beyond, the largest holder is closed. Required.
	OutputTotal int64

	// Info gives the numbers and sections of INFO that this package does not
	// know. Optional.
	Info func() Info
	// Now is the wall clock, for TIME. Optional.
	Now func() time.Time
	// Registerer takes the metrics. Optional.
	Registerer prometheus.Registerer
	// Log is required.
	Log *slog.Logger

	// For tests; 0 = the constants above.
	OutputLimit  int
	WriteTimeout time.Duration
	DrainTimeout time.Duration
}

// Info is what the node tells INFO about itself.
type Info struct {
	Version  string    // of shardkv
	Node     string    // name of this node
	Cluster  string    // name of the cluster
	Keys     int64     // estimate over the whole cluster
	Sections []Section // more sections, in order
}

// Section is a part of the INFO reply.
type Section struct {
	Name   string // as in "Server"; asked for in any case
	Fields []Field
}

// Field is one line of a Section.
type Field struct{ Name, Value string }

func (c Config) validate() (Config, error) {
	var faults []error
	if c.Listen == "" {
		faults = append(faults, errors.New("no address to listen on"))
	}
	if c.Backend == nil {
		faults = append(faults, errors.New("no backend"))
	}
	if c.Log == nil {
		faults = append(faults, errors.New("no log"))
	}
	if c.OutputTotal <= 0 {
		faults = append(faults, errors.New("no limit on the replies of all clients together"))
	}
	if c.MaxConns < 0 || c.OutputLimit < 0 || c.WriteTimeout < 0 || c.DrainTimeout < 0 {
		faults = append(faults, errors.New("a negative limit"))
	}
	if len(c.Password) > resp.UnauthBulk {
		faults = append(faults, errors.New("password longer than a client may send it"))
	}
	if c.MaxConns == 0 {
		c.MaxConns = MaxConns
	}
	if c.OutputLimit == 0 {
		c.OutputLimit = OutputLimit
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = WriteTimeout
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = DrainTimeout
	}
	if c.Info == nil {
		c.Info = func() Info { return Info{} }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	return c, errors.Join(faults...)
}
