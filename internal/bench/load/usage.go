package load

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ticksPerSecond is the unit of CPU times in /proc: USER_HZ, 100 on every
// architecture that Go and Linux share.
const ticksPerSecond = 100

// usage is CPU seconds used so far: by the servers, by this process, by all.
type usage struct{ servers, client, machine float64 }

func readUsage(pids []int) (u usage, err error) {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return u, err
	}
	u.client = seconds(ru.Utime) + seconds(ru.Stime)
	for _, pid := range pids {
		s, err := processSeconds(pid)
		if err != nil {
			return u, err
		}
		u.servers += s
	}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	u.machine, err = machineSeconds(string(b))
	return u, err
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

func processSeconds(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time of server %d: %w", pid, err)
	}
	// The name stands in brackets and may hold anything; fields 14 and 15 of
	// the line are user and system time, 12 and 13 after the name.
	_, rest, _ := cutLast(string(b), ")")
	return sum(strings.Fields(rest), 11, 12)
}

// machineSeconds adds what the first line of /proc/stat counts as work: user,
// nice, system, irq, softirq; not idle, iowait and steal.
func machineSeconds(stat string) (float64, error) {
	line, _, _ := strings.Cut(stat, "\n")
	return sum(strings.Fields(line), 1, 2, 3, 6, 7)
}

var errFields = errors.New("too few fields in /proc")

func sum(fields []string, at ...int) (float64, error) {
	var ticks int64
	for _, i := range at {
		if i >= len(fields) {
			return 0, errFields
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc: %w", err)
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
