package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"shardkv/internal/bench/load"
)

// workerArg makes this program the load generator of one run.
const workerArg = "worker"

// settings are the flags.
type settings struct {
	rounds           int
	duration, warmup time.Duration
	timeout          time.Duration
	keys             int
	seed             uint64
	cases            *regexp.Regexp
	stores           []string
	dir, cache       string
	out, from, lock  string
	block            int
	short, list      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == workerArg {
		return load.Serve(ctx, os.Stdin, os.Stdout, load.OpenRESP)
	}
	s, err := parse(args)
	if err != nil {
		return err
	}
	switch {
	case s.list:
		for _, c := range s.chosen() {
			fmt.Println(c)
		}
		return nil
	case s.from != "":
		records, err := readRecords(s.from)
		if err != nil {
			return err
		}
		return report(os.Stdout, records)
	}
	return measure(ctx, s)
}

func parse(args []string) (settings, error) {
	s := settings{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: go run ./internal/bench [flags]\n\nMeasures shardkv beside its peers and prints Markdown tables.")
		f.PrintDefaults()
	}
	f.IntVar(&s.rounds, "rounds", 5, "interleaved `rounds`; in each, every store runs every workload")
	f.IntVar(&s.block, "block", 4, "`number` of workloads that a store runs before it is the next store's turn; it starts anew for each block")
	f.DurationVar(&s.duration, "duration", 5*time.Second, "measured `time` of a run")
	f.DurationVar(&s.warmup, "warmup", 2*time.Second, "`time` before it, not measured")
	f.DurationVar(&s.timeout, "timeout", 10*time.Second, "of one request")
	f.IntVar(&s.keys, "keys", 100_000, "`number` of keys, chosen uniformly, all written before anything is measured")
	f.Uint64Var(&s.seed, "seed", 1, "of keys and values; the round is added")
	cases := f.String("cases", ".", "`regexp` of the workloads to run; -list prints their names")
	f.BoolVar(&s.short, "short", false, "only the workloads that say most: "+strings.Join(shortCases, ", "))
	stores := f.String("stores", strings.Join(storeNames(), ","), "`names` of what to measure, with commas between")
	f.StringVar(&s.dir, "dir", dataRoot(), "`folder` for the servers' data; on a real disk, not in memory")
	f.StringVar(&s.cache, "cache", "", "`folder` that keeps the built peers (default: shardkv-bench in the user's cache folder)")
	f.StringVar(&s.out, "out", "", "`file` that every result is appended to, a JSON object a line")
	f.StringVar(&s.from, "from", "", "measure nothing: print the tables of a `file` written by -out")
	f.StringVar(&s.lock, "lock", "", "`file` to hold locked (flock) while servers run, so that two measurements never overlap")
	f.BoolVar(&s.list, "list", false, "print the names of the chosen workloads and stop")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	return s, s.complete(*cases, *stores, f.Args())
}

// complete derives what the flags left open and reports every fault.
func (s *settings) complete(cases, stores string, rest []string) error {
	var errs []error
	if len(rest) > 0 {
		errs = append(errs, fmt.Errorf("unexpected arguments %q", rest))
	}
	if s.rounds < 1 || s.block < 1 || s.keys < 1 || s.duration <= 0 || s.warmup < 0 || s.timeout <= 0 {
		errs = append(errs, errors.New("rounds, block, keys, duration and timeout must be positive, warmup not negative"))
	}
	var err error
	if s.cases, err = regexp.Compile(cases); err != nil {
		errs = append(errs, fmt.Errorf("-cases: %w", err))
	} else if len(s.chosen()) == 0 {
		errs = append(errs, fmt.Errorf("-cases %q names no workload", cases))
	}
	for name := range strings.SplitSeq(stores, ",") {
		if _, ok := findStore(name); !ok || slices.Contains(s.stores, name) {
			errs = append(errs, fmt.Errorf("-stores: %q is none of %s, or named twice", name, strings.Join(storeNames(), ", ")))
		}
		s.stores = append(s.stores, name)
	}
	if s.cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			errs = append(errs, fmt.Errorf("-cache: %w", err))
		}
		s.cache = filepath.Join(base, "shardkv-bench")
	}
	return errors.Join(errs...)
}

func (s *settings) chosen() []workload {
	var list []workload
	for _, c := range workloads {
		if s.cases.MatchString(c.name()) && (!s.short || slices.Contains(shortCases, c.name())) {
			list = append(list, c)
		}
	}
	return list
}

// dataRoot prefers the folder for large temporary files, which outlives a
// reboot and so is on a disk; the other one is often in memory.
func dataRoot() string {
	const large = "/var/tmp"
	if info, err := os.Stat(large); err == nil && info.IsDir() {
		return large
	}
	return os.TempDir()
}
