package kv

func (x call) get() Reply {
	v, found := x.lookup(x.args[0])
	if !found {
		return Reply{}
	}
	return BulkReply(v.Data)
}

func (x call) set() (Reply, []Write) {
	key, data := x.args[0], x.args[1]
	if len(x.args) == 2 { // the command of all commands: nothing to read
		return replyOK, x.put(key, data, 0)
	}
	o, text := parseOptions(x.op, x.args[2:])
	if text != "" {
		return refuse(text), nil
	}
	at, ok := o.expiry.at(x.now)
	if !ok {
		return refuse(expireText(x.op)), nil
	}
	reply := replyOK
	var old Value
	var found bool
	if o.nx || o.xx || o.get || o.keepTTL {
		old, found = x.lookup(key)
	}
	if o.get {
		if reply = (Reply{}); found {
			reply = BulkReply(old.Data)
		}
	}
	if o.nx && found || o.xx && !found {
		if o.get {
			return reply, nil
		}
		return Reply{}, nil
	}
	switch {
	case o.expiry.unit != noExpire:
		return reply, x.putUntil(key, data, at)
	case o.keepTTL:
		return reply, x.put(key, data, old.ExpireAt)
	}
	return reply, x.put(key, data, 0)
}

func (x call) setEx() (Reply, []Write) {
	e, text := parseExpire(x.op, x.args[1])
	if text != "" {
		return refuse(text), nil
	}
	at, ok := e.at(x.now)
	if !ok {
		return refuse(expireText(x.op)), nil
	}
	return replyOK, x.putUntil(x.args[0], x.args[2], at)
}

func (x call) setNX() (Reply, []Write) {
	if _, found := x.lookup(x.args[0]); found {
		return IntReply(0), nil
	}
	return IntReply(1), x.put(x.args[0], x.args[1], 0)
}

func (x call) getEx() (Reply, []Write) {
	o, text := parseOptions(x.op, x.args[1:])
	if text != "" {
		return refuse(text), nil
	}
	at, ok := o.expiry.at(x.now)
	if !ok {
		return refuse(expireText(x.op)), nil
	}
	old, found := x.lookup(x.args[0])
	switch {
	case !found:
		return Reply{}, nil
	case o.expiry.unit != noExpire:
		return BulkReply(old.Data), x.putUntil(x.args[0], old.Data, at)
	case o.persist && old.ExpireAt != 0:
		return BulkReply(old.Data), x.put(x.args[0], old.Data, 0)
	}
	return BulkReply(old.Data), nil
}

func (x call) getDel() (Reply, []Write) {
	old, found := x.lookup(x.args[0])
	if !found {
		return Reply{}, nil
	}
	return BulkReply(old.Data), x.remove(x.args[0])
}

func (x call) append() (Reply, []Write) {
	key, data := x.args[0], x.args[1]
	old, found := x.lookup(key)
	size := len(old.Data) + len(data)
	if size > MaxValue {
		return refuse(textValueSize), nil
	}
	if found && len(data) == 0 {
		return IntReply(int64(size)), nil
	}
	whole := make([]byte, 0, size) // the old bytes belong to the view
	whole = append(append(whole, old.Data...), data...)
	return IntReply(int64(size)), x.put(key, whole, old.ExpireAt)
}

func (x call) getRange() Reply {
	start, text := parseNumber(x.args[1])
	if text != "" {
		return refuse(text)
	}
	end, text := parseNumber(x.args[2])
	if text != "" {
		return refuse(text)
	}
	v, _ := x.lookup(x.args[0])
	size := int64(len(v.Data))
	if start < 0 && end < 0 && start > end {
		return replyEmpty
	}
	if start < 0 {
		start = max(0, size+start)
	}
	if end < 0 {
		end = max(0, size+end)
	}
	end = min(end, size-1)
	if start > end {
		return replyEmpty
	}
	return BulkReply(v.Data[start : end+1])
}

func (x call) setRange() (Reply, []Write) {
	key, data := x.args[0], x.args[2]
	offset, text := parseOffset(x.args[1], data)
	if text != "" {
		return refuse(text), nil
	}
	old, _ := x.lookup(key)
	if len(data) == 0 {
		return IntReply(int64(len(old.Data))), nil
	}
	size := max(len(old.Data), int(offset)+len(data))
	whole := make([]byte, size)
	copy(whole, old.Data)
	copy(whole[offset:], data)
	return IntReply(int64(size)), x.put(key, whole, old.ExpireAt)
}
