package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict is what a check found. The zero value is not a good one.
type Verdict int

// The verdicts, the worst last.
const (
	Inconclusive Verdict = iota // not judged: too little time, or a malformed history
	Legal
	Illegal
)

func (v Verdict) String() string {
	return [...]string{"inconclusive", "legal", "ILLEGAL"}[v]
}

// DefaultBudget bounds the search over one key.
const DefaultBudget = time.Minute

// MaxInconclusive is the share of keys that may stay unjudged in a run that
// still counts as good; TESTING's 1 %.
const MaxInconclusive = 0.01

// Options of a check.
type Options struct {
	Budget time.Duration // for one key; 0 = DefaultBudget
	Dir    string        // illegal keys are drawn and saved there; "" = not
}

// Finding is the judgement of one key.
type Finding struct {
	Key     string
	Model   string // "register", "list" or "counter"
	Verdict Verdict
	Ops     int
	Unknown int
	Why     string // unless legal
}

// Report is the judgement of a whole history.
type Report struct {
	Findings []Finding // by key
	Faults   []string  // what makes the history itself unfit; nothing is legal then
}

// Check judges every key of a history. ctx ends it early; what is not judged by
// then is inconclusive.
func Check(ctx context.Context, ops []Op, opt Options) Report {
	if opt.Budget <= 0 {
		opt.Budget = DefaultBudget
	}
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.ID, b.ID)) })
	report := Report{Faults: validate(ops)}
	keys := make(map[string][]Op)
	for _, o := range ops {
		keys[o.Key] = append(keys[o.Key], o)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		f := Finding{Key: key, Ops: len(keys[key])}
		for _, o := range keys[key] {
			if o.Outcome == Unknown {
				f.Unknown++
			}
		}
		switch {
		case len(report.Faults) > 0:
			f.Why = "the history is malformed: " + report.Faults[0]
		case ctx.Err() != nil:
			f.Why = "the check was ended before"
		default:
			f.judge(ctx, keys[key], opt)
		}
		report.Findings = append(report.Findings, f)
	}
	return report
}

// judge picks the model by what was done to the key.
func (f *Finding) judge(ctx context.Context, ops []Op, opt Options) {
	only := func(allowed ...Kind) bool {
		return !slices.ContainsFunc(ops, func(o Op) bool { return !slices.Contains(allowed, o.Kind) })
	}
	has := func(k Kind) bool { return slices.ContainsFunc(ops, func(o Op) bool { return o.Kind == k }) }
	switch {
	case has(Append) && only(Append, Get) && sameLength(ops):
		f.Model = "list"
		f.Verdict, f.Why = checkList(ops)
	case has(Incr) && only(Incr, Get):
		f.Model = "counter"
		f.Verdict, f.Why = checkCounter(ops)
	default:
		f.Model = "register"
		budget := opt.Budget
		if end, bounded := ctx.Deadline(); bounded {
			budget = max(min(budget, time.Until(end)), time.Millisecond)
		}
		var info porcupine.LinearizationInfo
		f.Verdict, f.Why, info = checkRegister(ops, budget)
		if f.Verdict == Illegal && opt.Dir != "" {
			f.note(porcupine.VisualizePath(registerModel, info, filepath.Join(opt.Dir, fileName(f.Key)+".html")))
		}
	}
	if f.Verdict != Legal && opt.Dir != "" {
		f.note(saveTo(filepath.Join(opt.Dir, fileName(f.Key)+".jsonl"), ops))
	}
}

// note keeps a fault of drawing or saving beside the judgement.
func (f *Finding) note(err error) {
	if err != nil {
		f.Why += fmt.Sprintf(" (and saving it failed: %v)", err)
	}
}

func sameLength(ops []Op) bool {
	size := -1
	for _, o := range ops {
		if o.Kind != Append {
			continue
		}
		if size >= 0 && len(o.Arg) != size || o.Arg == "" {
			return false
		}
		size = len(o.Arg)
	}
	return true
}

func saveTo(path string, ops []Op) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := Save(file, ops); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// fileName makes a key fit for a file's name.
func fileName(key string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			return c
		}
		return '_'
	}, key)
}

// Verdict of the whole: illegal if any key is, legal if every key was judged
// legal save for MaxInconclusive of them, and there was something to judge.
func (r Report) Verdict() Verdict {
	unjudged := 0
	for _, f := range r.Findings {
		switch f.Verdict {
		case Illegal:
			return Illegal
		case Inconclusive:
			unjudged++
		}
	}
	if len(r.Faults) > 0 || len(r.Findings) == 0 || float64(unjudged) > MaxInconclusive*float64(len(r.Findings)) {
		return Inconclusive
	}
	return Legal
}

// String names the verdict, the numbers, and what is not legal.
func (r Report) String() string {
	var b strings.Builder
	ops, unknown := 0, 0
	for _, f := range r.Findings {
		ops, unknown = ops+f.Ops, unknown+f.Unknown
	}
	fmt.Fprintf(&b, "%v: %d keys, %d operations, %d of unknown outcome\n", r.Verdict(), len(r.Findings), ops, unknown)
	for _, fault := range r.Faults {
		fmt.Fprintf(&b, "fault: %s\n", fault)
	}
	for _, f := range r.Findings {
		if f.Verdict != Legal {
			fmt.Fprintf(&b, "%v: %s %q: %s\n", f.Verdict, f.Model, f.Key, f.Why)
		}
	}
	return b.String()
}
