package harness

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Metric returns the value of a series of the node's metrics, as in
// name{label="value"}, or for a bare name the sum of all its series. One that
// the node does not show is an error.
func (n *Node) Metric(ctx context.Context, series string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	shown := false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ') // labels may hold spaces, the value does not
		if at < 0 || line[0] == '#' {
			continue
		}
		id, value := line[:at], line[at+1:]
		if id != series && !strings.HasPrefix(id, series+"{") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %q: %w", line, err)
		}
		sum, shown = sum+v, true
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if !shown {
		return 0, fmt.Errorf("%s shows no %s", n.Name, series)
	}
	return sum, nil
}
