package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// RSS returns the resident and the anonymous resident memory of the node's
// process, in bytes (VmRSS and RssAnon of proc(5)).
func (n *Node) RSS() (resident, anonymous int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.Pid()))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		kib, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "VmRSS:":
			resident = kib << 10
		case "RssAnon:":
			anonymous = kib << 10
		}
	}
	return resident, anonymous, nil
}
