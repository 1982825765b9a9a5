package kv

// Replies that are the same each time. Nobody changes a reply's bytes.
var (
	replyOK     = Reply{Kind: Status, Data: []byte("OK")}
	replyString = Reply{Kind: Status, Data: []byte("string")}
	replyNone   = Reply{Kind: Status, Data: []byte("none")}
	replyEmpty  = Reply{Kind: Bulk, Data: []byte{}}
)

// call is one execution.
type call struct {
	view View
	op   Op
	args [][]byte
	now  int64 // log clock, ms
}

// Exec executes a command at log time now (ms): its reply and the writes it
// wants, in order. A refused command is an Error reply without writes; an
// undecodable one too, so any Command may be given. Within one command later
// keys see earlier writes. Reply and writes alias c and what v returned.
func Exec(v View, c Command, now int64) (Reply, []Write) {
	return run(call{v, c.Op, c.Args, now})
}

func run(x call) (Reply, []Write) {
	if !x.op.spec().fits(len(x.args)) {
		return refuse("ERR wrong number of arguments for '" + x.op.spec().name + "' command"), nil
	}
	switch x.op {
	case OpGet:
		return x.get(), nil
	case OpSet:
		return x.set()
	case OpSetEx, OpPSetEx:
		return x.setEx()
	case OpSetNX:
		return x.setNX()
	case OpGetSet:
		return x.get(), x.put(x.args[0], x.args[1], 0)
	case OpGetEx:
		return x.getEx()
	case OpGetDel:
		return x.getDel()
	case OpAppend:
		return x.append()
	case OpStrLen:
		old, _ := x.lookup(x.args[0])
		return IntReply(int64(len(old.Data))), nil
	case OpGetRange:
		return x.getRange(), nil
	case OpSetRange:
		return x.setRange()
	case OpIncr:
		return x.add(1)
	case OpDecr:
		return x.add(-1)
	case OpIncrBy, OpDecrBy:
		return x.addBy()
	case OpIncrByFloat:
		return x.addFloat()
	case OpMGet:
		return x.mget(), nil
	case OpMSet:
		return x.mset()
	case OpDel, OpUnlink:
		return x.del()
	case OpExists:
		return x.exists(), nil
	case OpExpire, OpPExpire, OpExpireAt, OpPExpireAt:
		return x.expire()
	case OpTTL, OpPTTL, OpExpireTime, OpPExpireTime:
		return x.ttl(), nil
	case OpPersist:
		return x.persist()
	default: // OpType
		if _, found := x.lookup(x.args[0]); found {
			return replyString, nil
		}
		return replyNone, nil
	}
}

func refuse(text string) Reply { return Reply{Kind: Error, Data: []byte(text)} }

// lookup returns the value of a key that exists now.
func (x call) lookup(key []byte) (Value, bool) {
	v, found := x.view.Get(key)
	if !found || Expired(v, x.now) {
		return Value{}, false
	}
	return v, true
}

// put is the write of a value that expires at a log time, 0 = never.
func (x call) put(key, data []byte, expireAt int64) []Write {
	return []Write{{Key: key, Value: Value{data, expireAt}}}
}

// putUntil is put with an expiry that the client named: one that is over by
// now takes the key away.
func (x call) putUntil(key, data []byte, at int64) []Write {
	if at <= x.now || at == 0 {
		return x.remove(key)
	}
	return x.put(key, data, at)
}

func (x call) remove(key []byte) []Write { return []Write{{Key: key, Delete: true}} }
