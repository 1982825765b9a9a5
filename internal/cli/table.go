package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table is aligned text: a title that begins with > is aligned right.
type table struct {
	titles []string
	rows   [][]string
	totals []string
}

func newTable(titles ...string) *table { return &table{titles: titles} }

func (t *table) row(cells ...string)   { t.rows = append(t.rows, cells) }
func (t *table) total(cells ...string) { t.totals = cells }

// String renders the table, its totals below a rule.
func (t *table) String() string {
	head := make([]string, len(t.titles))
	for i, title := range t.titles {
		head[i] = strings.TrimPrefix(title, ">")
	}
	all := append([][]string{head}, t.rows...)
	if t.totals != nil {
		all = append(all, t.totals)
	}
	widths := make([]int, len(head))
	for _, cells := range all {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, cells := range all {
		if t.totals != nil && n == len(all)-1 {
			b.WriteString(strings.Repeat("─", sum(widths)+2*(len(widths)-1)) + "\n")
		}
		var line strings.Builder
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if strings.HasPrefix(t.titles[i], ">") {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

func sum(ns []int) (s int) {
	for _, n := range ns {
		s += n
	}
	return s
}

// number writes n with commas: 120,031.
func number[N int | int64 | uint64](n N) string {
	s := fmt.Sprint(n)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// none writes 0 as a dash, so that the other numbers of a column stand out.
func none(n int) string {
	if n == 0 {
		return "-"
	}
	return number(n)
}

// size writes bytes with a binary unit: 29.8 MiB.
func size(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n), -1
	for f >= 1023.95 && unit < 5 {
		f, unit = f/1024, unit+1
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + string("KMGTPE"[unit]) + "iB"
}

// age writes a duration with two units at most: 45s, 3m12s, 2h5m, 4d3h.
func age(d time.Duration) string {
	d = max(d, 0)
	days := d / (24 * time.Hour)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case days == 0:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", days, int(d.Hours())%24)
	}
}

// percent writes part of whole, "" where the whole is unknown.
func percent(part, whole int64) string {
	if whole <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", int(math.Floor(100*min(1, float64(part)/float64(whole)))))
}

// ranges writes ascending numbers as 0-7, 12.
func ranges(ns []int) string {
	var parts []string
	for i := 0; i < len(ns); {
		k := i
		for k+1 < len(ns) && ns[k+1] == ns[k]+1 {
			k++
		}
		part := strconv.Itoa(ns[i])
		if k > i {
			part += "-" + strconv.Itoa(ns[k])
		}
		parts = append(parts, part)
		i = k + 1
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// dash writes an empty cell as a dash.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
