//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"shardkv/internal/chaos/history"
	"shardkv/internal/chaos/load"
	"shardkv/internal/harness"
	"shardkv/internal/shard"
	"shardkv/node/api"
)

// wholeAgain returns nil if the node is a live voter of each of its groups and
// no replica of it has failed.
func (w *world) wholeAgain(ctx context.Context, m *member) error {
	s, err := w.status(ctx)
	if err != nil {
		return err
	}
	check := func(of string, servers []api.Server) error {
		found := 0
		for _, r := range servers {
			if r.Node != m.Name {
				continue
			}
			found++
			if !r.Voter || !r.Alive || r.FailedBecause != "" {
				return fmt.Errorf("%s of %s: voter %v, alive %v, failed because %q", m.Name, of, r.Voter, r.Alive, r.FailedBecause)
			}
		}
		if found != 1 {
			return fmt.Errorf("%s has %d replicas in %s", m.Name, found, of)
		}
		return nil
	}
	if m.Ctrler {
		err = check("the ctrler", s.Ctrler.Servers)
	}
	for _, g := range s.Groups {
		for _, gid := range m.Groups {
			if uint32(gid) == g.GID {
				err = errors.Join(err, check(fmt.Sprint("group ", gid), g.Servers))
			}
		}
	}
	return err
}

// writable returns nil once a write to every shard succeeds, through the nodes
// in turn. It returns how many keys it made.
func (w *world) writable(ctx context.Context) (keys int, err error) {
	for id := range shards {
		key := ""
		for i := 0; key == "" || int(shard.Of([]byte(key), shards)) != id; i++ {
			key = fmt.Sprintf("last.%d.%d", id, i)
		}
		n := w.members[id%len(w.members)].view()
		conn := &harness.Client{Addr: n.Client}
		_, out, err := conn.Retry(load.LastReadBound, "SET", key, "x")
		conn.Close()
		if out != harness.OK {
			return id, fmt.Errorf("the last write on shard %d through %s: %w", id, n.Name, err)
		}
	}
	return shards, nil
}

// serving returns nil if every node sees every shard served.
func (w *world) serving(ctx context.Context) error {
	for _, m := range w.members {
		if !m.Running() {
			return fmt.Errorf("%s does not run, and said: %s", m.Name, m.LogTail(1))
		}
		if err := m.view().Serving(ctx); err != nil {
			return err
		}
	}
	return nil
}

// voters returns nil if every node is a live voter wherever it should be.
func (w *world) voters(ctx context.Context) (err error) {
	for _, m := range w.members {
		err = errors.Join(err, w.wholeAgain(ctx, m))
	}
	return err
}

// orphans runs `shardkv verify` and wants each shard on its owner alone, equal
// on all replicas, and exactly so many keys in all.
func (w *world) orphans(keys int, owners []uint32) error {
	out, errs, status := w.members[0].view().CLI(90*time.Second, "verify", "-o", "json")
	if status != 0 {
		return fmt.Errorf("verify: exit status %d: %s%s", status, errs, out)
	}
	var v api.Verification
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		return err
	}
	sum, seen := int64(0), map[int]bool{}
	for _, s := range v.Shards {
		if seen[s.Shard] || owners[s.Shard] != s.GID {
			return fmt.Errorf("shard %d stands on group %d, its owner is %d", s.Shard, s.GID, owners[s.Shard])
		}
		if len(s.Replicas) != 3 {
			return fmt.Errorf("shard %d has %d replicas", s.Shard, len(s.Replicas))
		}
		seen[s.Shard] = true
		sum += s.Replicas[0].Keys
	}
	if len(seen) != shards || sum != int64(keys) {
		return fmt.Errorf("verify counts %d shards and %d keys, want %d and %d", len(seen), sum, shards, keys)
	}
	return nil
}

// caughtUp returns nil if every replica has applied the newest config.
func (w *world) caughtUp(ctx context.Context, newest uint64) error {
	var list []api.Shard
	if err := w.members[0].view().Get(ctx, "/v1/shards", &list); err != nil {
		return err
	}
	for _, s := range list {
		for _, r := range s.Replicas {
			if r.ConfigNum != newest || r.State != "serving" {
				return fmt.Errorf("shard %d of group %d on %s is %q at config %d, the newest is %d", s.Shard, s.GID, r.Node, r.State, r.ConfigNum, newest)
			}
		}
	}
	return nil
}

// crash matches what no log may hold, whatever was done to the process: damage
// is met by checksums, so replicas that differ are a bug.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE|unexpected fault address|.*msg="replica differs from|.*msg="replicas differ and ).*`)

// told counts what the logs say, by the words of a message.
var told = map[string]string{
	"cluster formed":                      "nodes learned their cluster",
	"replica is made anew from its peers": "replicas made anew from their peers",
	"are compared once more":              "differences that were looked at again",
	"received snapshot is damaged":        "damaged snapshots refused",
	"disk full: the":                      "replicas waited for disk space",
	"clock too far":                       "leaders handed over for their clock",
	"replica failed":                      "replicas failed",
	"membership changes":                  "changes of Raft membership",
	"snapshot installed":                  "snapshots installed",
	"msg=\"replica stops\"":               "replicas stopped",
}

// logs looks for crashes, and counts.
func (w *world) logs() (happened map[string]int, faults []string) {
	happened = map[string]int{}
	for _, m := range w.members {
		b, err := os.ReadFile(m.Log)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		for words, what := range told {
			if n := strings.Count(string(b), words); n > 0 {
				happened[what] += n
			}
		}
		for _, line := range crash.FindAllString(string(b), 3) {
			faults = append(faults, fmt.Sprintf("%s: %s", m.Log, line))
		}
	}
	return happened, faults
}

// keep writes the history, and the schedule as it was carried out.
func (w *world) keep(l *load.Load) error {
	file, err := os.Create(filepath.Join(w.root, "history.jsonl"))
	if err != nil {
		return err
	}
	w.mu.Lock()
	text := strings.Join(w.log, "\n") + "\n"
	w.mu.Unlock()
	return errors.Join(history.Save(file, l.History()), file.Close(), os.WriteFile(filepath.Join(w.root, "schedule.txt"), []byte(text), 0o644))
}
