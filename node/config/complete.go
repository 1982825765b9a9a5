package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"shardkv/internal/shard"
	"shardkv/migrate/driver"
)

// Complete fills in what only the host knows (name, advertised addresses) and
// checks everything, for configurations that were built rather than read. An
// error is a *Error with all faults.
func (c Config) Complete(h Host) (Config, error) {
	done, faults := c.complete(h)
	if err := newError("", faults); err != nil {
		return Config{}, err
	}
	return done, nil
}

// complete is the one place where defaults of the host are taken and values
// are judged.
func (c Config) complete(h Host) (Config, []Fault) {
	j := &judge{}
	if c.Name == "" {
		c.Name = h.Name
		j.check("name", c.Name != "", "this host has no name: set one")
	}
	j.name("name", c.Name)
	j.check("data_dir", c.DataDir != "", "empty: want the path of a directory")
	j.check("data_dir", !strings.ContainsRune(c.DataDir, 0), "holds a zero byte: want the path of a directory")

	j.check("cluster.name", c.Cluster.Name != "", "empty: want the name of the cluster")
	j.name("cluster.name", c.Cluster.Name)
	j.within("cluster.shards", c.Cluster.Shards, shard.MaxShards)
	j.check("cluster.placement", c.Cluster.Placement == Balanced || c.Cluster.Placement == Ring,
		"%q is not a placement: want %q or %q", clip(c.Cluster.Placement), Balanced, Ring)
	j.within("cluster.ctrler_replicas", c.Cluster.CtrlerReplicas, MaxReplicas)
	j.within("cluster.group_replicas", c.Cluster.GroupReplicas, MaxReplicas)
	j.groups(c.Roles.Groups)

	listenFine := j.listen(c.Listen)
	c.Advertise = j.advertise(c.Listen, c.Advertise, listenFine, h)

	j.join(c.Gossip.Join)
	switch len(c.Gossip.Key) {
	case 0, 16, 24, 32:
	default:
		j.fault("gossip.key", "%d bytes: want base64 of 16, 24 or 32 bytes", len(c.Gossip.Key))
	}
	j.check("groups.compare_interval", c.Groups.CompareInterval >= MinCompare, "%v is too short: want %v or more", c.Groups.CompareInterval, MinCompare)
	j.check("client.timeout", c.Client.Timeout >= time.Millisecond, "%v is too short: want 1ms or more", c.Client.Timeout)
	j.check("client.timeout", c.Client.Timeout <= MaxTimeout, "%v is too long: want %v or less", c.Client.Timeout, MaxTimeout)
	j.password(string(c.Client.Password))
	j.check("client.max_staleness", c.Client.MaxStaleness >= MinStaleness, "%v is too short: want %v or more", c.Client.MaxStaleness, MinStaleness)
	j.check("client.max_staleness", c.Client.MaxStaleness <= MaxStaleness, "%v is too long: want %v or less", c.Client.MaxStaleness, MaxStaleness)
	j.check("client.balance", slices.Contains([]string{BalanceLeader, BalanceRoundRobin, BalanceLeastOutstanding}, c.Client.Balance),
		"%q is no way to balance reads: want %q, %q or %q", clip(c.Client.Balance), BalanceLeader, BalanceRoundRobin, BalanceLeastOutstanding)
	free := c.Storage.MinFree
	j.check("storage.min_free", free.Percent >= 0 && free.Bytes >= 0, "want a share of the disk or bytes, 0 or more")
	j.check("storage.min_free", free.Percent <= MaxSpacePercent, "%v%% is too much: want %d%% or less", free.Percent, MaxSpacePercent)
	if r := c.Migration.PullRate; r != AutoRate && r != Unlimited {
		j.check("migration.pull_rate", r >= MinRate, "%s is too slow: want %s or more", Rate(r), Rate(MinRate))
		j.check("migration.pull_rate", r <= MaxRate, "%s is too fast: want \"unlimited\"", Rate(r))
	}
	j.size("memory.memtable", c.Memory.Memtable, MinMemtable, MaxMemtable)
	j.size("memory.block_cache", c.Memory.BlockCache, MinCache, MaxMemory)
	j.size("memory.log_cache", c.Memory.LogCache, MinCache, MaxMemory)
	j.size("memory.client_output", c.Memory.ClientOutput, MinCache, MaxMemory)
	j.within("migration.parallel_pulls", c.Migration.ParallelPulls, driver.MaxPulls)
	return c, j.faults
}

// judge collects faults, one a key.
type judge struct{ faults []Fault }

func (j *judge) fault(key, format string, args ...any) { j.caused("", key, format, args...) }

func (j *judge) caused(by, key, format string, args ...any) {
	for _, f := range j.faults {
		if f.Key == key {
			return
		}
	}
	j.faults = append(j.faults, Fault{Key: key, Text: fmt.Sprintf(format, args...), cause: by})
}

func (j *judge) check(key string, fine bool, format string, args ...any) {
	if !fine {
		j.fault(key, format, args...)
	}
}

func (j *judge) within(key string, n, most int) {
	j.check(key, n >= 1, "%d is too few: want 1 or more", n)
	j.check(key, n <= most, "%d is too many: want %d or fewer", n, most)
}

func (j *judge) size(key string, n, least, most int64) {
	j.check(key, n >= least, "%s is too little: want %s or more", Size(n), Size(least))
	j.check(key, n <= most, "%s is too much: want %s or less", Size(n), Size(most))
}

func (j *judge) name(key, name string) {
	j.check(key, len(name) <= MaxName, "%d bytes long: want %d or fewer", len(name), MaxName)
	bad := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	j.check(key, strings.IndexFunc(name, bad) < 0, "%q holds an unprintable character", clip(name))
	j.check(key, strings.TrimSpace(name) == name, "%q begins or ends with a space", clip(name))
}

func (j *judge) groups(gids []shard.GID) {
	seen := map[shard.GID]bool{}
	for _, gid := range gids {
		j.check("roles.groups", gid != 0, "0 is not a group id: want 1 to 4294967295")
		j.check("roles.groups", !seen[gid], "group %d is listed twice", gid)
		seen[gid] = true
	}
	j.check("roles.groups", len(gids) <= MaxGroups, "%d groups: a node takes %d or fewer", len(gids), MaxGroups)
}

func (j *judge) join(addrs []string) {
	j.check("gossip.join", len(addrs) > 0, "empty: list the gossip addresses of the ctrler nodes; a node alone lists its own")
	j.check("gossip.join", len(addrs) <= MaxJoin, "%d addresses: want %d or fewer", len(addrs), MaxJoin)
	for _, a := range addrs {
		host, _, why := split(a)
		j.check("gossip.join", why == "", "%q %s", clip(a), why)
		j.check("gossip.join", why != "" || !host.wildcard(), "%q is no address to dial: name the host", clip(a))
	}
}

func (j *judge) password(p string) {
	j.check("client.password", len(p) <= MaxPassword, "%d bytes long: want %d or fewer", len(p), MaxPassword)
	// It travels as an HTTP bearer token too.
	j.check("client.password", strings.IndexFunc(p, unicode.IsControl) < 0, "holds a control character: HTTP cannot carry it")
	j.check("client.password", strings.TrimSpace(p) == p, "begins or ends with a space: HTTP cannot carry it")
}

// clip keeps a quoted value readable in a one-line fault.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// hostName is the name that a node takes where its file gives none.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
