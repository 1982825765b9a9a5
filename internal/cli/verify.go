package cli

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) verify() *ucli.Command {
	return &ucli.Command{
		Name:  "verify",
		Usage: "compare every shard's content across its replicas at one log index; exit status 1 where two differ",
		Flags: []ucli.Flag{&ucli.DurationFlag{Name: "timeout", Usage: "how long to wait for replicas", Value: time.Minute}},
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 0, 0); err != nil {
				return err
			}
			timeout := ctx.Duration("timeout")
			if timeout <= 0 || timeout > api.MaxVerify {
				return usagef("--timeout %v: want more than nothing and up to %v", timeout, api.MaxVerify)
			}
			raw, err := asJSON(ctx)
			if err != nil {
				return err
			}
			cl, err := newClient(ctx)
			if err != nil {
				return err
			}
			var v api.Verification
			body, err := cl.get(ctx.Context, "/v1/verify", url.Values{"timeout": {timeout.String()}}, timeout+answerTimeout, &v)
			if err != nil {
				return err
			}
			out := string(body)
			if !raw {
				out = verificationText(v)
			}
			if err := c.print(out); err != nil {
				return err
			}
			return judge(v)
		},
	}
}

// judge makes a failed verification the command's failure.
func judge(v api.Verification) error {
	if v.OK {
		return nil
	}
	var bad []string
	for _, s := range v.Shards {
		if !s.OK {
			bad = append(bad, fmt.Sprintf("shard %d of group %d", s.Shard, s.GID))
		}
	}
	switch n := len(bad); {
	case n == 0:
		return fmt.Errorf("not everything could be compared: %s", dash(strings.Join(v.Unanswered, "; ")))
	case n > 3:
		return fmt.Errorf("the replicas of %d shards differ or do not answer: %s and others", n, strings.Join(bad[:3], ", "))
	default:
		return fmt.Errorf("the replicas of %s differ or do not answer", strings.Join(bad, ", "))
	}
}

func verificationText(v api.Verification) string {
	var b strings.Builder
	bad, unknown := 0, 0
	for _, s := range v.Shards {
		switch {
		case s.OK:
		case len(s.Replicas) == 0:
			unknown++
		default:
			bad++
		}
	}
	if bad == 0 && v.OK {
		fmt.Fprintf(&b, "all replicas of %s are equal\n", plural(len(v.Shards), "shard"))
	} else {
		fmt.Fprintf(&b, "%d of %s NOT equal", bad, plural(len(v.Shards), "shard"))
		if unknown > 0 {
			fmt.Fprintf(&b, ", %d not compared", unknown)
		}
		b.WriteString("\n")
	}
	for _, line := range v.Unanswered {
		b.WriteString("  ! no answer: " + oneLine(line) + "\n")
	}
	b.WriteString("\n")
	t := newTable(">SHARD", ">GROUP", ">INDEX", ">KEYS", ">LANES", "RESULT", "REPLICAS")
	var keys int64
	shards := slices.Clone(v.Shards)
	slices.SortStableFunc(shards, func(a, b api.VerifiedShard) int { return order(a.OK) - order(b.OK) })
	for _, s := range shards {
		result, most := "equal", api.VerifiedReplica{}
		if !s.OK {
			result = "DIFFER"
		}
		if len(s.Replicas) == 0 {
			result = "no answer"
		}
		var names []string
		for _, r := range s.Replicas {
			if r.Keys >= most.Keys && r.Error == "" {
				most = r
			}
			names = append(names, replicaText(r, s.OK))
		}
		t.row(fmt.Sprint(s.Shard), owner(s.GID), number(s.Index), number(most.Keys), number(most.Lanes), result, strings.Join(names, ", "))
		keys += most.Keys
	}
	t.total("total", "", "", number(keys), "", "", "")
	return b.String() + t.String()
}

// order puts what differs first.
func order(ok bool) int {
	if ok {
		return 1
	}
	return 0
}

func replicaText(r api.VerifiedReplica, equal bool) string {
	const digits = 12 // enough to tell two hashes apart
	switch {
	case r.Error != "":
		return fmt.Sprintf("%s (%s)", r.Node, oneLine(r.Error))
	case equal:
		return r.Node
	default:
		return fmt.Sprintf("%s (%s, %s)", r.Node, r.Hash[:min(digits, len(r.Hash))], plural(int(r.Keys), "key"))
	}
}
