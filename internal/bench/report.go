package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"shardkv/internal/bench/load"
)

// disturbedCores is how much CPU of others makes a run doubtful.
const disturbedCores = 0.3

// report prints the tables of all records as Markdown.
func report(w io.Writer, records []record) error {
	var b bytes.Buffer
	for _, r := range records {
		if r.Machine != nil {
			fmt.Fprintln(&b, r.Machine)
		}
	}
	all := byWorkload(records)
	for _, p := range ratios {
		ratioTable(&b, all, p[0], p[1])
	}
	storeTable(&b, all, "Operations per second", "%.0f", perSecond)
	storeTable(&b, all, "Latency p50, ms", "%.2f", p50)
	storeTable(&b, all, "Latency p99, ms", "%.2f", p99)
	storeTable(&b, all, "CPU of the servers, µs per operation", "%.0f", serverMicros)
	storeTable(&b, all, "CPU of the load generator, cores", "%.2f", clientCores)
	storeTable(&b, all, "CPU of anything else, cores", "%.2f", otherCores)
	faults(&b, records)
	_, err := w.Write(b.Bytes())
	return err
}

// ratioTable compares two stores; nothing is printed if no workload has both.
func ratioTable(w io.Writer, all map[string]results, first, second string) {
	var rows [][]string
	for _, c := range workloads {
		r := all[c.name()]
		q := r.ratio(first, second, perSecond)
		if q.n == 0 {
			continue
		}
		rows = append(rows, []string{c.name(), q.text("%.2f"), r.ratio(first, second, p99).text("%.2f"),
			r.ratio(first, second, serverMicros).text("%.2f"), fmt.Sprint(q.n)})
	}
	table(w, first+" ÷ "+second, []string{"workload", "operations per second", "p99", "server CPU per operation", "rounds"}, rows)
}

// storeTable prints one metric of every store.
func storeTable(w io.Writer, all map[string]results, title, format string, metric func(load.Result) float64) {
	names := storeNames()
	var rows [][]string
	for _, c := range workloads {
		row, any := []string{c.name()}, false
		for _, name := range names {
			s := all[c.name()].of(name, metric)
			any = any || s.n > 0
			row = append(row, s.text(format))
		}
		if any {
			rows = append(rows, row)
		}
	}
	table(w, title, append([]string{"workload"}, names...), rows)
}

// faults lists every run with errors, misses or disturbance, and what failed.
func faults(w io.Writer, records []record) {
	var rows [][]string
	runs, disturbed := 0, 0
	for _, r := range records {
		at := []string{fmt.Sprint(r.Round), r.Store, r.Workload}
		switch res := r.Result; {
		case r.Failure != "":
			first, _, _ := strings.Cut(r.Failure, "\n")
			rows = append(rows, append(at, "", "", "", "failed: "+first))
		case res == nil:
		default:
			runs++
			if res.OtherCores > disturbedCores {
				disturbed++
			}
			if res.Errors+res.WarmupErrors+res.Misses > 0 {
				rows = append(rows, append(at, fmt.Sprint(res.Errors), fmt.Sprint(res.WarmupErrors), fmt.Sprint(res.Misses), res.FirstError))
			}
		}
	}
	table(w, "Errors and misses", []string{"round", "store", "workload", "errors", "in the warm-up", "misses", "first"}, rows)
	if len(rows) == 0 {
		fmt.Fprintf(w, "\nNo errors and no misses.\n")
	}
	fmt.Fprintf(w, "\nIn %d of %d runs something else took more than %.1f cores.\n", disturbed, runs, disturbedCores)
}

// table prints a Markdown table; nothing without rows.
func table(w io.Writer, title string, head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n**%s**\n\n| %s |\n|---|%s\n", title, strings.Join(head, " | "), strings.Repeat("--:|", len(head)-1))
	for _, row := range rows {
		for i := range row {
			row[i] = strings.ReplaceAll(row[i], "|", `\|`)
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}

func writeRecord(w io.Writer, r record) error { return json.NewEncoder(w).Encode(r) }

// readRecords reads what -out wrote. Rounds of a second run in the same file
// are numbered on from those of the first, so that they stay rounds.
func readRecords(file string) (list []record, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return decodeRecords(bufio.NewReader(f))
}

func decodeRecords(r io.Reader) (list []record, err error) {
	base, last := 0, 0
	for d := json.NewDecoder(r); ; {
		var rec record
		if err := d.Decode(&rec); err == io.EOF {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(list)+1, err)
		}
		if rec.Machine != nil {
			base = last
		} else {
			rec.Round += base
			last = max(last, rec.Round)
		}
		list = append(list, rec)
	}
}
