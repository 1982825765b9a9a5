package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"shardkv/node/api"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const pollEvery = 200 * time.Millisecond

// waiting is a change that is made but not carried out.
type waiting struct {
	client   *client
	num      uint64   // the config that the change made
	involved []string // the groups of this config and of the one before
	leaving  []int64  // groups that must stay out meanwhile
	seen     uint64   // configs up to here are checked for them
}

// errTakenIn means that a later config gives shards to a group that was to leave.
var errTakenIn = errors.New("taken in again")

// wait returns once every shard serves and all groups of the old and the new
// config are done with it.
func (c *command) wait(ctx context.Context, cl *client, verb string, body api.ChangeRequest, num uint64, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	w := &waiting{client: cl, num: num, seen: num}
	if verb == api.Leave {
		w.leaving = body.GIDs
	}
	bar := newProgress(c.stderr)
	defer bar.end()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	left := "no node answered since"
	for {
		serving, shards, what, err := w.poll(ctx)
		var no *refusal
		switch {
		case errors.Is(err, errTakenIn), errors.As(err, &no) && no.status < http.StatusInternalServerError:
			return err
		case err != nil && ctx.Err() == nil: // a node that restarts comes back
			left = err.Error()
		case err == nil && what == "":
			bar.show(shards, shards)
			return nil
		case err == nil:
			left = what
			bar.show(serving, shards)
		}
		select {
		case <-ctx.Done():
			bar.end()
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("interrupted: config %d is made and its shards go on moving; so far %s", num, left)
			}
			return fmt.Errorf("config %d is made, but not carried out within %v: %s; `shardkv status` shows what waits for what", num, timeout, left)
		case <-tick.C:
		}
	}
}

// poll says how many shards serve, and what is left to do ("" = nothing).
func (w *waiting) poll(ctx context.Context) (serving, shards int, left string, err error) {
	if w.involved == nil {
		if w.involved, err = w.groups(ctx); err != nil {
			return 0, 0, "", err
		}
	}
	var st api.Status
	if _, err = w.client.get(ctx, "/v1/status", nil, answerTimeout, &st); err != nil {
		return 0, 0, "", err
	}
	for w.seen < st.Config.Num {
		if err := w.checkLater(ctx, w.seen+1); err != nil {
			return 0, 0, "", err
		}
		w.seen++
	}
	serving, left = settled(st, w.num, w.involved)
	return serving, st.Cluster.Shards, left, nil
}

// groups are those of the config before the change and of the change.
func (w *waiting) groups(ctx context.Context) ([]string, error) {
	var gids []string
	for n := w.num - min(w.num, 1); n <= w.num; n++ {
		cfg, err := w.config(ctx, n)
		if err != nil {
			return nil, err
		}
		for gid := range cfg.Groups {
			if !slices.Contains(gids, gid) {
				gids = append(gids, gid)
			}
		}
	}
	slices.SortFunc(gids, func(a, b string) int { return numberOf(a) - numberOf(b) })
	return gids, nil
}

func numberOf(gid string) int {
	n, err := strconv.Atoi(gid)
	if err != nil {
		return 0 // no node writes such a gid; any order will do
	}
	return n
}

// checkLater fails if config num takes in a group that is to leave.
func (w *waiting) checkLater(ctx context.Context, num uint64) error {
	if len(w.leaving) == 0 {
		return nil
	}
	cfg, err := w.config(ctx, num)
	if err != nil {
		return err
	}
	for _, gid := range w.leaving {
		if _, in := cfg.Groups[strconv.FormatInt(gid, 10)]; in {
			return fmt.Errorf("group %d must not be stopped: config %d has %w what config %d let go", gid, num, errTakenIn, w.num)
		}
	}
	return nil
}

func (w *waiting) config(ctx context.Context, num uint64) (cfg api.Config, err error) {
	_, err = w.client.get(ctx, "/v1/config", url.Values{"num": {strconv.FormatUint(num, 10)}}, answerTimeout, &cfg)
	return cfg, err
}

// settled counts the shards that serve and says what is left until config num
// is carried out. Only what a group's leader says counts.
func settled(st api.Status, num uint64, involved []string) (serving int, left string) {
	known := map[string]api.Group{}
	moving := 0
	for _, g := range st.Groups {
		known[strconv.FormatUint(uint64(g.GID), 10)] = g
		if g.ConfigNum >= num {
			serving += g.States.Serving
		}
		moving += g.States.Pulling + g.States.GCing
	}
	for _, gid := range involved {
		g, ok := known[gid]
		switch {
		case !ok || g.Leader == "":
			return serving, "group " + gid + " has no leader that answers"
		case g.ConfigNum < num:
			return serving, fmt.Sprintf("group %s is at config %d", gid, g.ConfigNum)
		case g.States.BePulling > 0:
			return serving, fmt.Sprintf("group %s still holds %s for others", gid, plural(g.States.BePulling, "shard"))
		}
	}
	switch {
	case moving > 0:
		return serving, plural(moving, "shard") + " on the move"
	case serving < st.Cluster.Shards:
		return serving, fmt.Sprintf("%s not serving", plural(st.Cluster.Shards-serving, "shard"))
	}
	return serving, ""
}

// progress is a bar on a terminal and nothing elsewhere.
type progress struct {
	w   io.Writer
	bar *progressbar.ProgressBar
}

func newProgress(w io.Writer) *progress {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{w: w}
}

func (p *progress) show(serving, shards int) {
	if p.w == nil || shards == 0 {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions(shards, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription("shards serving"),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(30), progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(false))
	}
	// A bar that cannot be drawn is no reason to stop waiting.
	_ = p.bar.Set(serving)
}

// end leaves the bar's line, once.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Exit()
		fmt.Fprintln(p.w)
		p.bar = nil
	}
}
