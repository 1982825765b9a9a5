package kv

import (
	"bytes"
	"reflect"
	"testing"

	"shardkv/internal/wire"
)

func FuzzReadCommand(f *testing.F) {
	for _, line := range []string{"GET k", "SET k v EX 10 NX GET", "MSET a 1 b 2", "INCRBYFLOAT f 1e5", "GETRANGE k 0 -1", "EXPIRE k 1 LT"} {
		c, err := Parse(fields(f, line))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(c.Append(nil))
	}
	f.Add([]byte{byte(OpMGet), 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := ReadCommand(wire.NewReader(b))
		if c.Op == 0 {
			return
		}
		again := roundTrip(t, c)
		if !reflect.DeepEqual(c, again) {
			t.Fatalf("%v became %v", c, again)
		}
		total(t, c)
	})
}

// total executes a command of unchecked arguments: it may refuse, not panic,
// and a refusal writes nothing.
func total(t *testing.T, c Command) {
	w := world{"k": {Data: []byte("12"), ExpireAt: 2000}, "f": {Data: []byte("1.5")}}
	reply, writes := Exec(w, c, 1000)
	if reply.Kind == Error && len(writes) > 0 {
		t.Fatalf("%s refused with %s and %d writes", c.Name(), reply, len(writes))
	}
	for _, x := range writes {
		if x.Value.ExpireAt < 0 || x.Value.ExpireAt != 0 && x.Value.ExpireAt <= 1000 {
			t.Fatalf("%s writes a value that expires at %d", c.Name(), x.Value.ExpireAt)
		}
	}
	if !c.IsWrite() && len(writes) > 0 {
		t.Fatalf("%s is a read with %d writes", c.Name(), len(writes))
	}
	c.Alone()
	c.Keys()
	for _, p := range c.Split(64) {
		if len(p.Command.Args) == 0 || len(p.Index) != len(p.Command.Keys()) {
			t.Fatalf("%s: part of %d keys at %v", c.Name(), len(p.Command.Keys()), p.Index)
		}
	}
}

func FuzzReadReply(f *testing.F) {
	for _, p := range []Reply{{}, replyOK, IntReply(-5), BulkReply([]byte("x")), refuse(textSyntax), {Kind: Array, Items: []Reply{{}, IntReply(1)}}} {
		f.Add(p.Append(nil))
	}
	f.Add(bytes.Repeat([]byte{byte(Array), 1}, 50))
	f.Add([]byte{byte(kindEnd)})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		p := ReadReply(r)
		if r.Err() != nil {
			return
		}
		out := p.Append(nil)
		if len(out) > p.Size() {
			t.Fatalf("%d bytes encoded, Size says %d", len(out), p.Size())
		}
		r = wire.NewReader(out)
		if again := ReadReply(r); r.Close() != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("%v became %v", p, again)
		}
	})
}

func FuzzReadValue(f *testing.F) {
	for _, v := range []Value{{}, {Data: []byte("x")}, {Data: []byte("y"), ExpireAt: 1 << 41}} {
		f.Add(v.Append(nil))
	}
	f.Add([]byte{valueVersion + 1, 0, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ReadValue(b)
		if err != nil {
			return
		}
		again, err := ReadValue(v.Append(nil))
		if err != nil || !bytes.Equal(v.Data, again.Data) || v.ExpireAt != again.ExpireAt {
			t.Fatalf("%v became %v, %v", v, again, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"GET\nk", "SET\nk\nv\nEX\n10", "EXPIRE\nk\n-9223372036854775808\nNX", "INCRBYFLOAT\nf\n-1.5e300",
		"SETRANGE\nk\n999999\nx", "GETRANGE\nk\n-9223372036854775808\n-1", "MSET\na\n1\nb", "nosuch\na"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Parse(bytes.Split(b, []byte("\n")))
		if err != nil {
			if bytes.ContainsAny([]byte(err.Error()), "\r\n") {
				t.Fatalf("error of two lines: %q", err)
			}
			return
		}
		again := roundTrip(t, c)
		for i, a := range c.Args {
			if !bytes.Equal(a, again.Args[i]) {
				t.Fatalf("argument %d changed", i)
			}
		}
		total(t, c)
	})
}
