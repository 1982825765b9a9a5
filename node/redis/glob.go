package redis

// match says whether s matches a pattern as Redis's stringmatchlen does: * ? and
// [class] with ^ and ranges, \ before a literal byte. Instead of Redis's
// recursion, which is exponential in the stars, it only ever returns to the last
// star: time is bounded by the product of the two lengths.
func match(pattern, s []byte, foldCase bool) bool {
	p, i := 0, 0
	star, from := -1, 0 // position after the last star, and where its match begins
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, from = p, i
			continue
		}
		if p < len(pattern) {
			if n, ok := matchOne(pattern[p:], s[i], foldCase); ok {
				p += n
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		from++
		p, i = star, from
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne matches one byte against the element that begins the pattern, which
// is not a star, and returns the element's length.
func matchOne(pattern []byte, c byte, foldCase bool) (int, bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		return matchClass(pattern, c, foldCase)
	case '\\':
		if len(pattern) > 1 {
			return 2, equal(pattern[1], c, foldCase)
		}
	}
	return 1, equal(pattern[0], c, foldCase)
}

// matchClass matches [abc], [^a-z], [\]]; one that is not closed ends with the
// pattern.
func matchClass(pattern []byte, c byte, foldCase bool) (int, bool) {
	p, found := 1, false
	not := p < len(pattern) && pattern[p] == '^'
	if not {
		p++
	}
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		rest := pattern[p:]
		switch {
		case rest[0] == '\\' && len(rest) >= 2:
			p++
			found = found || rest[1] == c
		case len(rest) >= 3 && rest[1] == '-':
			lo, hi, at := fold(rest[0], foldCase), fold(rest[2], foldCase), fold(c, foldCase)
			found = found || min(lo, hi) <= at && at <= max(lo, hi)
			p += 2
		default:
			found = found || equal(rest[0], c, foldCase)
		}
	}
	return min(p+1, len(pattern)), found != not
}

func equal(a, b byte, foldCase bool) bool { return fold(a, foldCase) == fold(b, foldCase) }

func fold(c byte, on bool) byte {
	if on && 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
