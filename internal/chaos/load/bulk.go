package load

import (
	"fmt"
	"strings"

	"shardkv/internal/harness"
)

// bulkValue is the size of one value of the bulk.
const bulkValue = 32 << 10

// Fill writes n large values, so that moves take many chunks. They are never
// written again.
func Fill(targets []Target, n int) error {
	for i := range n {
		conn := &harness.Client{Addr: targets[i%len(targets)].Addr}
		_, out, err := conn.Do("SET", bulkKey(i), bulkText(i))
		conn.Close()
		if out != harness.OK {
			return fmt.Errorf("writing %s: %w", bulkKey(i), err)
		}
	}
	return nil
}

// Filled wants what Fill wrote to be there.
func Filled(targets []Target, n int) (faults []string) {
	var last lastReads
	for i := range n {
		conn := &harness.Client{Addr: targets[(i+1)%len(targets)].Addr}
		reply, _, err := last.do(conn, "GET", bulkKey(i))
		conn.Close()
		if reply != bulkText(i) {
			faults = append(faults, fmt.Sprintf("%s is not what was written: %.40v %v", bulkKey(i), reply, err))
		}
	}
	return faults
}

func bulkKey(i int) string { return fmt.Sprint("bulk.", i) }

func bulkText(i int) string { return strings.Repeat(fmt.Sprintf("%08d", i), bulkValue/8) }
