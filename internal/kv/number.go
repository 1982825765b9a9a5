package kv

import (
	"bytes"
	"math"
	"math/big"
)

// parseInt reads a signed 64-bit number in the one form that Redis accepts: no
// leading zero, plus sign, space or "-0".
func parseInt(p []byte) (int64, bool) {
	negative := len(p) > 0 && p[0] == '-'
	digits := p
	if negative {
		digits = p[1:]
	}
	switch {
	case len(digits) == 0 || len(digits) > 19:
		return 0, false
	case digits[0] == '0':
		return 0, len(p) == 1
	}
	var u uint64 // 19 digits fit
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u <= math.MaxInt64:
		return int64(u), true
	}
	return 0, false
}

func parseNumber(p []byte) (int64, string) {
	n, ok := parseInt(p)
	if !ok {
		return 0, textNotInt
	}
	return n, ""
}

// parseDecrement reads the number of DECRBY, which must have a negation.
func parseDecrement(p []byte) (int64, string) {
	n, text := parseNumber(p)
	if text == "" && n == math.MinInt64 {
		return 0, textDecrement
	}
	return -n, text
}

// parseOffset reads the offset of SETRANGE. Writing nothing is allowed at any
// offset.
func parseOffset(p, data []byte) (int64, string) {
	n, text := parseNumber(p)
	switch {
	case text != "":
		return 0, text
	case n < 0:
		return 0, textOffset
	case len(data) > 0 && n > int64(MaxValue-len(data)):
		return 0, textValueSize
	}
	return n, ""
}

// Limits of a floating point number. Redis computes with the 80-bit numbers of
// the x87: 64 bits of mantissa, 15 of exponent, 17 digits shown after the point.
// We do the same in software, so that all machines agree.
const (
	floatBits     = 64
	floatDecimals = 17
	maxFloatText  = 5 * 1024
	maxExponent   = 16384  // binary
	minExponent   = -16445 // of the smallest denormal
	exponentChars = 6      // sign included: a longer one is out of range anyway
)

// parseFloat reads a decimal number as strtold does, without its hexadecimal
// form. An infinity is a number here, and refused once it is added.
func parseFloat(p []byte) (*big.Float, string) {
	if !floatSyntax(p) {
		if inf := infinity(p); inf != nil {
			return inf, ""
		}
		return nil, textNotFloat
	}
	f, _, err := big.ParseFloat(string(p), 10, floatBits, big.ToNearestEven)
	if err != nil || !inRange(f) {
		return nil, textNotFloat
	}
	return f, ""
}

func inRange(f *big.Float) bool {
	e := f.MantExp(nil)
	return f.Sign() == 0 || !f.IsInf() && e <= maxExponent && e >= minExponent
}

// floatSyntax checks [sign] digits [. digits] [e [sign] digits] before the
// text goes to a parser that knows more forms.
func floatSyntax(p []byte) bool {
	if len(p) >= maxFloatText {
		return false
	}
	p = trimSign(p)
	if at := bytes.IndexAny(p, "eE"); at >= 0 {
		e := p[at+1:]
		if n := len(trimSign(e)); n == 0 || len(e) > exponentChars || digits(trimSign(e)) != n {
			return false
		}
		p = p[:at]
	}
	n := digits(p)
	if n == len(p) {
		return n > 0
	}
	fraction := p[n+1:]
	return p[n] == '.' && n+len(fraction) > 0 && digits(fraction) == len(fraction)
}

// trimSign takes off one sign.
func trimSign(p []byte) []byte {
	if len(p) > 0 && (p[0] == '-' || p[0] == '+') {
		return p[1:]
	}
	return p
}

// digits counts the digits at the front.
func digits(p []byte) int {
	n := 0
	for n < len(p) && '0' <= p[n] && p[n] <= '9' {
		n++
	}
	return n
}

func infinity(p []byte) *big.Float {
	word := trimSign(p)
	if !is(word, "INF") && !is(word, "INFINITY") {
		return nil
	}
	return new(big.Float).SetInf(p[0] == '-')
}

// addFloats returns the sum as the text that is stored.
func addFloats(a, b *big.Float) (sum []byte, text string) {
	if a.IsInf() || b.IsInf() {
		return nil, textNaN
	}
	f := new(big.Float).SetPrec(floatBits).SetMode(big.ToNearestEven).Add(a, b)
	if f.Sign() != 0 && f.MantExp(nil) > maxExponent {
		return nil, textNaN
	}
	sum = bytes.TrimRight(f.Append(nil, 'f', floatDecimals), "0")
	sum = bytes.TrimSuffix(sum, []byte("."))
	if string(sum) == "-0" {
		return []byte("0"), ""
	}
	return sum, ""
}
