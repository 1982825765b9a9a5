package kv

// Op is the number of a command on the wire and in the log: it never changes
// its meaning, new commands are added at the end.
type Op uint8

// The commands. Zero is no command.
const (
	OpGet Op = iota + 1
	OpSet
	OpSetEx
	OpPSetEx
	OpSetNX
	OpGetSet
	OpGetEx
	OpGetDel
	OpAppend
	OpStrLen
	OpGetRange
	OpSetRange
	OpIncr
	OpDecr
	OpIncrBy
	OpDecrBy
	OpIncrByFloat
	OpMGet
	OpMSet
	OpDel
	OpUnlink
	OpExists
	OpExpire
	OpPExpire
	OpExpireAt
	OpPExpireAt
	OpTTL
	OpPTTL
	OpExpireTime
	OpPExpireTime
	OpPersist
	OpType
	opEnd
)

// shape says where the keys of a command stand among its arguments.
type shape uint8

const (
	firstKey shape = iota // the first argument
	allKeys               // every argument
	keyPairs              // key value key value …
)

// unbounded stands for "as many arguments as MaxArgs allows".
const unbounded = MaxArgs

type spec struct {
	name     string // lower case
	min, max int    // arguments, the name not counted
	keys     shape
	write    bool
	value    int // position of a value argument whose length is limited, 0 = none
}

var specs = [opEnd]spec{
	OpGet:         {name: "get", min: 1, max: 1},
	OpSet:         {name: "set", min: 2, max: unbounded, write: true, value: 1},
	OpSetEx:       {name: "setex", min: 3, max: 3, write: true, value: 2},
	OpPSetEx:      {name: "psetex", min: 3, max: 3, write: true, value: 2},
	OpSetNX:       {name: "setnx", min: 2, max: 2, write: true, value: 1},
	OpGetSet:      {name: "getset", min: 2, max: 2, write: true, value: 1},
	OpGetEx:       {name: "getex", min: 1, max: unbounded, write: true},
	OpGetDel:      {name: "getdel", min: 1, max: 1, write: true},
	OpAppend:      {name: "append", min: 2, max: 2, write: true, value: 1},
	OpStrLen:      {name: "strlen", min: 1, max: 1},
	OpGetRange:    {name: "getrange", min: 3, max: 3},
	OpSetRange:    {name: "setrange", min: 3, max: 3, write: true, value: 2},
	OpIncr:        {name: "incr", min: 1, max: 1, write: true},
	OpDecr:        {name: "decr", min: 1, max: 1, write: true},
	OpIncrBy:      {name: "incrby", min: 2, max: 2, write: true},
	OpDecrBy:      {name: "decrby", min: 2, max: 2, write: true},
	OpIncrByFloat: {name: "incrbyfloat", min: 2, max: 2, write: true},
	OpMGet:        {name: "mget", min: 1, max: unbounded, keys: allKeys},
	OpMSet:        {name: "mset", min: 2, max: unbounded, keys: keyPairs, write: true},
	OpDel:         {name: "del", min: 1, max: unbounded, keys: allKeys, write: true},
	OpUnlink:      {name: "unlink", min: 1, max: unbounded, keys: allKeys, write: true},
	OpExists:      {name: "exists", min: 1, max: unbounded, keys: allKeys},
	OpExpire:      {name: "expire", min: 2, max: unbounded, write: true},
	OpPExpire:     {name: "pexpire", min: 2, max: unbounded, write: true},
	OpExpireAt:    {name: "expireat", min: 2, max: unbounded, write: true},
	OpPExpireAt:   {name: "pexpireat", min: 2, max: unbounded, write: true},
	OpTTL:         {name: "ttl", min: 1, max: 1},
	OpPTTL:        {name: "pttl", min: 1, max: 1},
	OpExpireTime:  {name: "expiretime", min: 1, max: 1},
	OpPExpireTime: {name: "pexpiretime", min: 1, max: 1},
	OpPersist:     {name: "persist", min: 1, max: 1, write: true},
	OpType:        {name: "type", min: 1, max: 1},
}

var opsByName = func() map[string]Op {
	m := make(map[string]Op, opEnd)
	for op := Op(1); op < opEnd; op++ {
		m[specs[op].name] = op
	}
	return m
}()

// maxName is at least the length of the longest command name.
const maxName = 16

// opOf finds a command by its name in any case; 0 if there is none.
func opOf(name []byte) Op {
	var low [maxName]byte
	if len(name) > len(low) {
		return 0
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	return opsByName[string(low[:len(name)])]
}

// spec returns what is known of an op; the zero spec of an unknown one takes
// no arguments and therefore fits none.
func (o Op) spec() *spec {
	if o >= opEnd {
		return &specs[0]
	}
	return &specs[o]
}

// fits says whether a command may have n arguments.
func (s *spec) fits(n int) bool {
	return s.min <= n && n <= s.max && n > 0 && (s.keys != keyPairs || n%2 == 0)
}
