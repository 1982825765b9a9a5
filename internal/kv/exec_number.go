package kv

import (
	"math"
	"math/big"
	"strconv"
)

func (x call) addBy() (Reply, []Write) {
	parse := parseNumber
	if x.op == OpDecrBy {
		parse = parseDecrement
	}
	n, text := parse(x.args[1])
	if text != "" {
		return refuse(text), nil
	}
	return x.add(n)
}

func (x call) add(n int64) (Reply, []Write) {
	key := x.args[0]
	old, found := x.lookup(key)
	var sum int64
	if found {
		var ok bool
		if sum, ok = parseInt(old.Data); !ok {
			return refuse(textNotInt), nil
		}
	}
	if n > 0 && sum > math.MaxInt64-n || n < 0 && sum < math.MinInt64-n {
		return refuse(textOverflow), nil
	}
	sum += n
	return IntReply(sum), x.put(key, strconv.AppendInt(nil, sum, 10), old.ExpireAt)
}

func (x call) addFloat() (Reply, []Write) {
	n, textArg := parseFloat(x.args[1])
	old, found := x.lookup(x.args[0])
	value, text := new(big.Float), ""
	if found {
		value, text = parseFloat(old.Data)
	}
	if text != "" || textArg != "" { // Redis judges the value first; the text is the same
		return refuse(textNotFloat), nil
	}
	sum, text := addFloats(value, n)
	if text != "" {
		return refuse(text), nil
	}
	return BulkReply(sum), x.put(x.args[0], sum, old.ExpireAt)
}
