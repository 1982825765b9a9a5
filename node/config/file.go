package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"shardkv/internal/shard"

	"github.com/BurntSushi/toml"
)

// Load reads a configuration file for this host. An error is a *Error, one line.
func Load(path string) (Config, error) {
	text, err := read(path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return Config{}, &Error{path, []Fault{{Text: "the configuration file cannot be read: " + err.Error()}}}
	}
	return Parse(path, text, ThisHost())
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// Parse reads the text of a configuration file; file names it in errors.
func Parse(file string, text []byte, h Host) (Config, error) {
	if len(text) > maxFile {
		return Config{}, &Error{file, []Fault{{Text: fmt.Sprintf("larger than %d KiB: not a configuration file", maxFile>>10)}}}
	}
	var tree map[string]any
	if _, err := toml.Decode(string(text), &tree); err != nil {
		return Config{}, &Error{file, []Fault{syntaxFault(err)}}
	}
	c := Default()
	faults := walk("", tree, &c)
	c, more := c.complete(h)
	for _, f := range more {
		// One fault a key: a value that could not be read left the default there.
		if !slices.ContainsFunc(faults, func(g Fault) bool { return g.Key == f.Key }) {
			faults = append(faults, f)
		}
	}
	for i := range faults {
		if faults[i].Line = line(string(text), faults[i].Key); faults[i].Line == 0 && faults[i].cause != "" {
			faults[i].Line = line(string(text), faults[i].cause)
		}
	}
	if err := newError(file, faults); err != nil {
		return Config{}, err
	}
	return c, nil
}

func syntaxFault(err error) Fault {
	var pe toml.ParseError
	if !errors.As(err, &pe) {
		return Fault{Text: "not TOML"}
	}
	text := strings.TrimSuffix(pe.Message, ".")
	switch lower := strings.ToLower(pe.LastKey); {
	case strings.Contains(lower, "pas"), strings.Contains(lower, "key"): // mistyped or not, what was found there stays unsaid
		text = "want a string in quotes"
	case strings.HasPrefix(text, "expected value but found"):
		text = "want a value; text stands in quotes"
	}
	return Fault{Line: pe.Position.Line, Key: pe.LastKey, Text: "not TOML: " + text}
}

// walk puts the values of one table into c and returns what is wrong with them.
func walk(path string, table map[string]any, c *Config) []Fault {
	var faults []Fault
	for _, name := range slices.Sorted(maps.Keys(table)) {
		at, value := name, table[name]
		if path != "" {
			at = path + "." + name
		}
		sub, isTable := value.(map[string]any)
		switch set, known := keys[at]; {
		case known:
			if text := set(c, value); text != "" {
				faults = append(faults, Fault{Key: at, Text: text})
			}
		case path == "" && sections[name] && isTable:
			faults = append(faults, walk(name, sub, c)...)
		case path == "" && sections[name]:
			faults = append(faults, Fault{Key: at, Text: "want a table, as in [" + name + "]"})
		default:
			faults = append(faults, Fault{Key: at, Text: unknown(at)})
		}
	}
	return faults
}

// keys is every key of a file with what puts its value into a Config; a setter
// returns what is wrong with the value, "" if nothing is.
var keys = map[string]func(*Config, any) string{
	"name":      text(func(c *Config) *string { return &c.Name }),
	"data_dir":  text(func(c *Config) *string { return &c.DataDir }),
	"log_level": logLevel,

	"cluster.name":            text(func(c *Config) *string { return &c.Cluster.Name }),
	"cluster.shards":          count(func(c *Config) *int { return &c.Cluster.Shards }),
	"cluster.placement":       text(func(c *Config) *string { return &c.Cluster.Placement }),
	"cluster.ctrler_replicas": count(func(c *Config) *int { return &c.Cluster.CtrlerReplicas }),
	"cluster.group_replicas":  count(func(c *Config) *int { return &c.Cluster.GroupReplicas }),

	"roles.ctrler": boolean(func(c *Config) *bool { return &c.Roles.Ctrler }),
	"roles.groups": groups,

	"listen.client": text(func(c *Config) *string { return &c.Listen.Client }),
	"listen.peer":   text(func(c *Config) *string { return &c.Listen.Peer }),
	"listen.gossip": text(func(c *Config) *string { return &c.Listen.Gossip }),
	"listen.http":   text(func(c *Config) *string { return &c.Listen.HTTP }),

	"advertise.client": given(text(func(c *Config) *string { return &c.Advertise.Client })),
	"advertise.peer":   given(text(func(c *Config) *string { return &c.Advertise.Peer })),
	"advertise.gossip": given(text(func(c *Config) *string { return &c.Advertise.Gossip })),
	"advertise.http":   given(text(func(c *Config) *string { return &c.Advertise.HTTP })),

	"gossip.join": join,
	"gossip.key":  gossipKey,

	"groups.auto_join":        boolean(func(c *Config) *bool { return &c.Groups.AutoJoin }),
	"groups.compare_interval": duration(func(c *Config) *time.Duration { return &c.Groups.CompareInterval }),

	"client.timeout":        duration(func(c *Config) *time.Duration { return &c.Client.Timeout }),
	"client.redirect":       boolean(func(c *Config) *bool { return &c.Client.Redirect }),
	"client.password":       password,
	"client.max_staleness":  duration(func(c *Config) *time.Duration { return &c.Client.MaxStaleness }),
	"client.follower_reads": boolean(func(c *Config) *bool { return &c.Client.FollowerReads }),
	"client.balance":        text(func(c *Config) *string { return &c.Client.Balance }),

	"storage.min_free": space(func(c *Config) *Space { return &c.Storage.MinFree }),

	"memory.memtable":      size(func(c *Config) *int64 { return &c.Memory.Memtable }),
	"memory.block_cache":   size(func(c *Config) *int64 { return &c.Memory.BlockCache }),
	"memory.log_cache":     size(func(c *Config) *int64 { return &c.Memory.LogCache }),
	"memory.client_output": size(func(c *Config) *int64 { return &c.Memory.ClientOutput }),

	"migration.pull_rate":      rate,
	"migration.parallel_pulls": count(func(c *Config) *int { return &c.Migration.ParallelPulls }),
}

var sections = func() map[string]bool {
	s := map[string]bool{}
	for key := range keys {
		if table, _, ok := strings.Cut(key, "."); ok {
			s[table] = true
		}
	}
	return s
}()

func text(field func(*Config) *string) func(*Config, any) string {
	return func(c *Config, v any) string {
		s, ok := v.(string)
		if !ok {
			return want("a string in quotes", v)
		}
		*field(c) = s
		return ""
	}
}

// given refuses the empty string where it would silently mean "not given".
func given(set func(*Config, any) string) func(*Config, any) string {
	return func(c *Config, v any) string {
		if v == "" {
			return "empty: want host:port, or leave the key out"
		}
		return set(c, v)
	}
}

func count(field func(*Config) *int) func(*Config, any) string {
	return func(c *Config, v any) string {
		n, ok := v.(int64)
		if !ok {
			return want("a whole number", v)
		}
		*field(c) = int(n)
		return ""
	}
}

func boolean(field func(*Config) *bool) func(*Config, any) string {
	return func(c *Config, v any) string {
		b, ok := v.(bool)
		if !ok {
			return want("true or false", v)
		}
		*field(c) = b
		return ""
	}
}

func logLevel(c *Config, v any) string {
	s, ok := v.(string)
	if !ok {
		return want("a string in quotes", v)
	}
	level, err := ParseLogLevel(s)
	if err != nil {
		return err.Error()
	}
	c.LogLevel = level
	return ""
}

// ParseLogLevel reads debug, info, warn or error.
func ParseLogLevel(s string) (slog.Level, error) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if s == strings.ToLower(level.String()) {
			return level, nil
		}
	}
	return 0, fmt.Errorf("%q is not a log level: want debug, info, warn or error", s)
}

func groups(c *Config, v any) string {
	list, ok := v.([]any)
	if !ok {
		return want("a list of group ids, as in [1, 2]", v)
	}
	gids := make([]shard.GID, 0, min(len(list), MaxGroups+1))
	for _, item := range list {
		n, ok := item.(int64)
		if !ok {
			return "among the group ids, " + want("a whole number", item)
		}
		if n < 1 || n > 1<<32-1 {
			return fmt.Sprintf("%d is not a group id: want 1 to 4294967295", n)
		}
		gids = append(gids, shard.GID(n))
	}
	c.Roles.Groups = gids
	return ""
}

func join(c *Config, v any) string {
	list, ok := v.([]any)
	if !ok {
		return want(`a list of addresses, as in ["10.0.0.1:7381"]`, v)
	}
	addrs := make([]string, 0, len(list))
	for _, item := range list {
		s, ok := item.(string)
		if !ok {
			return "among the addresses, " + want("a string in quotes", item)
		}
		addrs = append(addrs, s)
	}
	c.Gossip.Join = addrs
	return ""
}

func gossipKey(c *Config, v any) string {
	s, ok := v.(string)
	if !ok {
		return want("a string in quotes", v)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return "not base64: `head -c 32 /dev/urandom | base64` makes a key" // the text may be a key mistyped: not shown
	}
	c.Gossip.Key = Secret(raw)
	return ""
}

func duration(field func(*Config) *time.Duration) func(*Config, any) string {
	return func(c *Config, v any) string {
		s, ok := v.(string)
		if !ok {
			return want(`a duration in quotes, as in "5s"`, v)
		}
		d, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Sprintf(`%q is not a duration: want a number with a unit, as in "5s" or "500ms"`, s)
		}
		*field(c) = d
		return ""
	}
}

func password(c *Config, v any) string {
	s, ok := v.(string)
	if !ok {
		return want("a string in quotes", v)
	}
	c.Client.Password = Secret(s)
	return ""
}

// want says which type was wanted and which was found, never the value: it may
// be a password under the wrong key.
func want(wanted string, found any) string {
	kind := "a date or time"
	switch found.(type) {
	case string:
		kind = "a string"
	case int64:
		kind = "a whole number"
	case float64:
		kind = "a number with a fraction"
	case bool:
		kind = "true or false"
	case []any:
		kind = "a list"
	case map[string]any, []map[string]any:
		kind = "a table"
	}
	return "want " + wanted + ", found " + kind
}
