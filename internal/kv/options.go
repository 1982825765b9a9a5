package kv

import "math"

// expireUnit says how the number of an expiry is meant.
type expireUnit uint8

const (
	noExpire  expireUnit = iota
	inSeconds            // EX: from now
	inMillis             // PX
	atSeconds            // EXAT: since the epoch
	atMillis             // PXAT
)

// expiry is an expiry as the client named it.
type expiry struct {
	unit   expireUnit
	amount int64 // ms, from now or since the epoch as unit says
}

// at returns the log time of the expiry, in ms; ok is false if no clock holds it.
func (e expiry) at(now int64) (ms int64, ok bool) {
	if e.unit == atSeconds || e.unit == atMillis {
		return e.amount, true
	}
	if now > 0 && e.amount > math.MaxInt64-now {
		return 0, false
	}
	return now + e.amount, true
}

// options are those of SET and GETEX.
type options struct {
	nx, xx, get, keepTTL, persist bool
	expiry                        expiry
}

// parseOptions reads the options of SET or GETEX as Redis does: an option that
// contradicts an earlier one is a syntax error, one that is repeated is not.
func parseOptions(op Op, args [][]byte) (o options, text string) {
	var number []byte
	for i := 0; i < len(args); i++ {
		unit := o.expireOption(args[i])
		switch {
		case unit != noExpire && i+1 < len(args):
			o.expiry.unit = unit
			i++
			number = args[i]
		case unit == noExpire && o.flag(op, args[i]):
		default:
			return o, textSyntax
		}
	}
	if o.expiry.unit != noExpire {
		o.expiry, text = positiveExpire(op, o.expiry.unit, number)
	}
	return o, text
}

func (o *options) flag(op Op, arg []byte) bool {
	set, free := op == OpSet, o.expiry.unit == noExpire
	switch {
	case set && is(arg, "NX") && !o.xx:
		o.nx = true
	case set && is(arg, "XX") && !o.nx:
		o.xx = true
	case set && is(arg, "GET"):
		o.get = true
	case set && is(arg, "KEEPTTL") && free:
		o.keepTTL = true
	case !set && is(arg, "PERSIST") && free:
		o.persist = true
	default:
		return false
	}
	return true
}

func (o *options) expireOption(arg []byte) expireUnit {
	unit := noExpire
	switch {
	case is(arg, "EX"):
		unit = inSeconds
	case is(arg, "PX"):
		unit = inMillis
	case is(arg, "EXAT"):
		unit = atSeconds
	case is(arg, "PXAT"):
		unit = atMillis
	}
	if o.keepTTL || o.persist || o.expiry.unit != noExpire && o.expiry.unit != unit {
		return noExpire
	}
	return unit
}

// parseExpire reads the number of SETEX or PSETEX.
func parseExpire(op Op, number []byte) (expiry, string) {
	if op == OpSetEx {
		return positiveExpire(op, inSeconds, number)
	}
	return positiveExpire(op, inMillis, number)
}

func positiveExpire(op Op, unit expireUnit, number []byte) (expiry, string) {
	n, ok := parseInt(number)
	if !ok {
		return expiry{}, textNotInt
	}
	if n <= 0 {
		return expiry{}, expireText(op)
	}
	return scaleExpire(op, unit, n)
}

// scaleExpire turns seconds into milliseconds.
func scaleExpire(op Op, unit expireUnit, n int64) (expiry, string) {
	if unit == inSeconds || unit == atSeconds {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return expiry{}, expireText(op)
		}
		n *= 1000
	}
	return expiry{unit, n}, ""
}

func expireText(op Op) string { return "ERR invalid expire time in '" + op.spec().name + "' command" }

// condition is one of the options of EXPIRE and its kin.
type condition struct {
	expiry         expiry
	nx, xx, gt, lt bool
}

// parseExpireOptions reads EXPIRE, PEXPIRE, EXPIREAT or PEXPIREAT.
func parseExpireOptions(c Command) (o condition, text string) {
	for _, arg := range c.Args[2:] {
		switch {
		case is(arg, "NX"):
			o.nx = true
		case is(arg, "XX"):
			o.xx = true
		case is(arg, "GT"):
			o.gt = true
		case is(arg, "LT"):
			o.lt = true
		default:
			return o, oneLine("ERR Unsupported option " + string(arg[:min(len(arg), maxQuoted)]))
		}
	}
	switch {
	case o.nx && (o.xx || o.gt || o.lt):
		return o, textNXAlone
	case o.gt && o.lt:
		return o, textGTLT
	}
	n, ok := parseInt(c.Args[1])
	if !ok {
		return o, textNotInt
	}
	o.expiry, text = scaleExpire(c.Op, unitOf(c.Op), n)
	return o, text
}

func unitOf(op Op) expireUnit {
	switch op {
	case OpExpire:
		return inSeconds
	case OpPExpire:
		return inMillis
	case OpExpireAt:
		return atSeconds
	default:
		return atMillis
	}
}

// is compares an option with its upper case name, in any case.
func is(arg []byte, upper string) bool {
	if len(arg) != len(upper) {
		return false
	}
	for i, c := range arg {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != upper[i] {
			return false
		}
	}
	return true
}
