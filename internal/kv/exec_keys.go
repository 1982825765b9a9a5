package kv

import "bytes"

func (x call) mget() Reply {
	items, size := make([]Reply, len(x.args)), 0
	for i, key := range x.args {
		if v, found := x.lookup(key); found {
			items[i] = BulkReply(v.Data)
			size += len(v.Data)
		}
		if size > MaxReply {
			return refuse(textReplySize)
		}
	}
	return Reply{Kind: Array, Items: items}
}

func (x call) mset() (Reply, []Write) {
	writes := make([]Write, 0, len(x.args)/2)
	for i := 0; i+1 < len(x.args); i += 2 {
		writes = append(writes, Write{Key: x.args[i], Value: Value{Data: x.args[i+1]}})
	}
	return replyOK, writes
}

// fewKeys is up to where looking for a key in a list beats a map.
const fewKeys = 16

func (x call) del() (Reply, []Write) {
	var writes []Write
	var gone map[string]struct{}
	if len(x.args) > fewKeys {
		gone = make(map[string]struct{}, len(x.args))
	}
	for _, key := range x.args {
		if _, found := x.lookup(key); !found || deleted(writes, gone, key) {
			continue
		}
		writes = append(writes, Write{Key: key, Delete: true})
		if gone != nil {
			gone[string(key)] = struct{}{}
		}
	}
	return IntReply(int64(len(writes))), writes
}

// deleted says whether an earlier key of the same command was this one.
func deleted(writes []Write, gone map[string]struct{}, key []byte) bool {
	if gone != nil {
		_, is := gone[string(key)]
		return is
	}
	for _, w := range writes {
		if bytes.Equal(w.Key, key) {
			return true
		}
	}
	return false
}

func (x call) exists() Reply {
	n := int64(0)
	for _, key := range x.args {
		if _, found := x.lookup(key); found {
			n++
		}
	}
	return IntReply(n)
}

func (x call) expire() (Reply, []Write) {
	o, text := parseExpireOptions(Command{x.op, x.args})
	if text != "" {
		return refuse(text), nil
	}
	at, ok := o.expiry.at(x.now)
	if !ok {
		return refuse(expireText(x.op)), nil
	}
	key := x.args[0]
	old, found := x.lookup(key)
	if !found || !o.holds(old.ExpireAt, at) {
		return IntReply(0), nil
	}
	return IntReply(1), x.putUntil(key, old.Data, max(at, 0)) // before the epoch is past, too
}

// holds says whether the conditions let an expiry (0 = none) be replaced.
func (o condition) holds(current, at int64) bool {
	switch {
	case o.nx && current != 0, o.xx && current == 0:
		return false
	case o.gt && (current == 0 || at <= current): // no expiry counts as infinite
		return false
	case o.lt && current != 0 && at >= current:
		return false
	}
	return true
}

func (x call) ttl() Reply {
	v, found := x.lookup(x.args[0])
	if !found {
		return IntReply(-2)
	}
	if v.ExpireAt == 0 {
		return IntReply(-1)
	}
	ms := v.ExpireAt
	if x.op == OpTTL || x.op == OpPTTL {
		ms = v.ExpireAt - x.now
	}
	if x.op == OpTTL || x.op == OpExpireTime {
		ms = roundSeconds(ms)
	}
	return IntReply(ms)
}

// roundSeconds is that of Redis, without its overflow at the end of time.
func roundSeconds(ms int64) int64 { return ms/1000 + (ms%1000+500)/1000 }

func (x call) persist() (Reply, []Write) {
	old, found := x.lookup(x.args[0])
	if !found || old.ExpireAt == 0 {
		return IntReply(0), nil
	}
	return IntReply(1), x.put(x.args[0], old.Data, 0)
}
