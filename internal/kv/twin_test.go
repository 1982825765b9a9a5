package kv

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// twin is a second, slow and simple-minded keeper of strings. It knows only the
// forms of commands that the property draws.
type twin struct {
	data map[string]string
	dies map[string]int64 // ms
	now  int64
}

func (w *twin) bury() {
	for key, at := range w.dies {
		if w.now >= at {
			delete(w.data, key)
			delete(w.dies, key)
		}
	}
}

func (w *twin) quote(key string) string {
	if v, ok := w.data[key]; ok {
		return strconv.Quote(v)
	}
	return "(nil)"
}

func (w *twin) put(key, v string) string {
	w.data[key] = v
	delete(w.dies, key)
	return "OK"
}

func (w *twin) die(key string, at int64) {
	w.dies[key] = at
	w.bury()
}

func integer(n int64) string { return fmt.Sprintf("(int) %d", n) }

func yes(ok bool) string {
	if ok {
		return "(int) 1"
	}
	return "(int) 0"
}

func (w *twin) do(f []string) string {
	w.bury()
	key := f[1]
	old, has := w.data[key]
	at, mortal := w.dies[key]
	switch f[0] {
	case "GET":
		return w.quote(key)
	case "SET":
		return w.set(key, f[2], f[3:])
	case "SETNX":
		if !has {
			w.put(key, f[2])
		}
		return yes(!has)
	case "GETSET":
		answer := w.quote(key)
		w.put(key, f[2])
		return answer
	case "GETDEL":
		answer := w.quote(key)
		w.die(key, w.now)
		return answer
	case "APPEND":
		w.data[key] = old + f[2]
		return integer(int64(len(old + f[2])))
	case "STRLEN":
		return integer(int64(len(old)))
	case "INCRBY", "DECRBY":
		return w.add(f[0], key, f[2])
	case "SETRANGE":
		from, _ := strconv.Atoi(f[2])
		for len(old) < from+len(f[3]) {
			old += "\x00"
		}
		w.data[key] = old[:from] + f[3] + old[from+len(f[3]):]
		return integer(int64(len(old)))
	case "GETRANGE":
		return strconv.Quote(slice(old, f[2], f[3]))
	case "TTL", "PTTL":
		left := at - w.now
		if f[0] == "TTL" {
			left = (left + 500) / 1000
		}
		if !has {
			left = -2
		} else if !mortal {
			left = -1
		}
		return integer(left)
	case "PERSIST":
		delete(w.dies, key)
		return yes(mortal)
	case "PEXPIRE":
		ms, _ := strconv.ParseInt(f[2], 10, 64)
		return w.pexpire(key, w.now+ms, f[3:])
	}
	return w.many(f)
}

// slice picks the positions that a range names, one after the other.
func slice(s, from, to string) string {
	start, _ := strconv.Atoi(from)
	end, _ := strconv.Atoi(to)
	if start < 0 && end < 0 && start > end {
		return ""
	}
	place := func(n int) int {
		if n < 0 {
			return max(0, n+len(s))
		}
		return n
	}
	out := ""
	for i := range len(s) {
		if i >= place(start) && i <= place(end) {
			out += s[i : i+1]
		}
	}
	return out
}

func (w *twin) many(f []string) string {
	n := 0
	switch f[0] {
	case "MGET":
		var all []string
		for _, key := range f[1:] {
			all = append(all, w.quote(key))
		}
		return "[" + strings.Join(all, " ") + "]"
	case "MSET":
		for i := 1; i < len(f); i += 2 {
			w.put(f[i], f[i+1])
		}
		return "OK"
	case "EXISTS":
		for _, key := range f[1:] {
			if _, ok := w.data[key]; ok {
				n++
			}
		}
	case "DEL":
		before := len(w.data)
		for _, key := range f[1:] {
			w.die(key, w.now)
		}
		n = before - len(w.data)
	}
	return integer(int64(n))
}

func (w *twin) set(key, v string, options []string) string {
	_, has := w.data[key]
	said, at := strings.Join(options, " ")+" ", w.dies[key]
	answer := "OK"
	if strings.Contains(said, "GET ") {
		answer = w.quote(key)
	}
	if strings.Contains(said, "NX ") && has || strings.Contains(said, "XX ") && !has {
		if answer == "OK" {
			return "(nil)"
		}
		return answer
	}
	w.put(key, v)
	if strings.Contains(said, "KEEPTTL ") && at != 0 {
		w.die(key, at)
	}
	if _, number, ok := strings.Cut(said, "PX "); ok {
		ms, _ := strconv.ParseInt(strings.Fields(number)[0], 10, 64)
		w.die(key, w.now+ms)
	}
	return answer
}

func (w *twin) add(name, key, number string) string {
	old, has := w.data[key]
	n, _ := strconv.ParseInt(number, 10, 64)
	if name == "DECRBY" {
		n = -n
	}
	if !has {
		old = "0"
	}
	v, err := strconv.ParseInt(old, 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != old {
		return "-ERR value is not an integer or out of range"
	}
	w.data[key] = strconv.FormatInt(v+n, 10)
	return integer(v + n)
}

func (w *twin) pexpire(key string, at int64, options []string) string {
	_, has := w.data[key]
	before, mortal := w.dies[key]
	ok := has
	for _, o := range options {
		switch o {
		case "NX":
			ok = ok && !mortal
		case "XX":
			ok = ok && mortal
		case "GT":
			ok = ok && mortal && at > before
		case "LT":
			ok = ok && (!mortal || at < before)
		}
	}
	if ok {
		w.die(key, at)
	}
	return yes(ok)
}

func drawCommand(t *rapid.T) []string {
	key := func() string { return rapid.SampledFrom([]string{"a", "b", "c", "{a}d"}).Draw(t, "key") }
	value := func() string {
		return rapid.SampledFrom([]string{"", "0", "7", "-12", "xyz", " 1", "abcdefgh"}).Draw(t, "value")
	}
	number := func(lo, hi int) string { return strconv.Itoa(rapid.IntRange(lo, hi).Draw(t, "number")) }
	name := rapid.SampledFrom([]string{"GET", "SET", "SETNX", "GETSET", "GETDEL", "APPEND", "STRLEN", "INCRBY", "DECRBY", "SETRANGE",
		"GETRANGE", "TTL", "PTTL", "PERSIST", "PEXPIRE", "MGET", "MSET", "EXISTS", "DEL"}).Draw(t, "name")
	f := []string{name, key()}
	switch name {
	case "SETNX", "GETSET", "APPEND":
		f = append(f, value())
	case "SET":
		f = append(f, value())
		f = append(f, rapid.SampledFrom([][]string{{}, {"NX"}, {"XX"}, {"GET"}, {"NX", "GET"}}).Draw(t, "condition")...)
		f = append(f, rapid.SampledFrom([][]string{{}, {"KEEPTTL"}, {"PX", number(1, 3000)}}).Draw(t, "expiry")...)
	case "INCRBY", "DECRBY":
		f = append(f, number(-50, 50))
	case "SETRANGE":
		f = append(f, number(0, 12), rapid.SampledFrom([]string{"x", "yz"}).Draw(t, "piece"))
	case "GETRANGE":
		f = append(f, number(-12, 12), number(-12, 12))
	case "PEXPIRE":
		f = append(f, number(-10, 3000))
		f = append(f, rapid.SampledFrom([][]string{{}, {"NX"}, {"XX"}, {"GT"}, {"LT"}, {"XX", "LT"}}).Draw(t, "condition")...)
	case "MSET":
		f = append(f, value())
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			f = append(f, key(), value())
		}
	case "MGET", "EXISTS", "DEL":
		for range rapid.IntRange(0, 20).Draw(t, "more") {
			f = append(f, key())
		}
	}
	return f
}

// TestTwin holds Exec against the twin over random histories; a read has no
// writes, and a command answers alike whole or split and merged.
func TestTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, split := world{}, world{}
		twin := &twin{map[string]string{}, map[string]int64{}, 1_000_000}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			twin.now += int64(rapid.SampledFrom([]int{0, 0, 0, 1, 100, 1000, 2000}).Draw(t, "passes"))
			f := drawCommand(t)
			args := make([][]byte, len(f))
			for i := range f {
				args[i] = []byte(f[i])
			}
			c, err := Parse(args)
			if err != nil {
				t.Fatalf("%q refused: %v", f, err)
			}
			reply, writes := Exec(w, c, twin.now)
			w.apply(writes)
			if len(writes) > 0 && !c.IsWrite() {
				t.Fatalf("%q is a read and writes", f)
			}
			if want := twin.do(f); reply.String() != want {
				t.Fatalf("%q: %s, the twin says %s", f, reply, want)
			}
			parts := c.Split(16)
			var replies []Reply
			for _, p := range parts {
				reply, writes := Exec(split, p.Command, twin.now)
				split.apply(writes)
				replies = append(replies, reply)
			}
			if got := Merge(c, parts, replies); c.Op != OpMSet && got.String() != reply.String() {
				t.Fatalf("%q: %s whole, %s in parts", f, reply, got)
			}
		}
		if fmt.Sprint(w) != fmt.Sprint(split) {
			t.Fatal("data differ between whole and parts")
		}
	})
}
