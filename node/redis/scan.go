package redis

import (
	"strconv"
	"strings"
)

// defaultCount is COUNT where the client names none, as in Redis.
const defaultCount = 10

type scanArgs struct {
	cursor  uint64
	count   int
	pattern []byte // nil = all
	none    bool   // TYPE of something that no key is
}

// parseScan reads SCAN cursor [MATCH pattern] [COUNT n] [TYPE type].
func parseScan(args [][]byte) (a scanArgs, refusal string) {
	var err error
	if a.cursor, err = strconv.ParseUint(string(args[1]), 10, 64); err != nil {
		return a, "ERR invalid cursor"
	}
	a.count = defaultCount
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			return a, textSyntax
		}
		switch value := args[i+1]; strings.ToLower(string(args[i])) {
		case "match":
			a.pattern = value
		case "count":
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil {
				return a, textNotInt
			}
			if n < 1 {
				return a, textSyntax
			}
			a.count = int(min(n, MaxScanCount))
		case "type":
			a.none = !strings.EqualFold(string(value), "string")
		default:
			return a, textSyntax
		}
	}
	return a, ""
}

func (c *conn) scan(args [][]byte) {
	a, refusal := parseScan(args)
	if refusal != "" {
		c.refuse(refusal)
		return
	}
	var next uint64
	var keys [][]byte
	if !a.none { // every key is a string: the walk for another type is over
		var err error
		next, keys, err = c.server.config.Backend.Scan(c.server.ctx, a.cursor, ScanOptions{Count: a.count})
		if err != nil {
			c.refuse(errorText(err))
			return
		}
	}
	if a.pattern != nil {
		kept := make([][]byte, 0, len(keys))
		for _, k := range keys {
			if match(a.pattern, k, false) {
				kept = append(kept, k)
			}
		}
		keys = kept
	}
	c.writer.Array(2)
	c.writer.BulkString(strconv.FormatUint(next, 10))
	c.writer.Array(len(keys))
	for _, k := range keys {
		c.writer.Bulk(k)
	}
}

func (c *conn) dbSize([][]byte) {
	n, err := c.server.config.Backend.DBSize(c.server.ctx)
	if err != nil {
		c.refuse(errorText(err))
		return
	}
	c.writer.Int(n)
}

// errorText is the error reply for a Backend's error: its text, with ERR before
// it unless it begins with a code in capitals.
func errorText(err error) string {
	text := err.Error()
	code, _, _ := strings.Cut(text, " ")
	if code != "" && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return text
	}
	return "ERR " + text
}
