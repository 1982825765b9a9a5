package transport

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

var prefaces = []preface{
	{From: identity("a"), Target: "b", Type: streamCalls},
	{From: Identity{Node: "a"}, Target: "b", Type: streamBulk},
	{From: identity("a"), Target: "b", Type: streamRaft, Group: 1<<32 - 1, Epoch: 1 << 60, Server: "b.00000001"},
}

func TestPrefaceRoundTrip(t *testing.T) {
	for _, p := range prefaces {
		in := bytes.NewReader(append(p.encode(), "next"...))
		got, err := readPreface(in)
		if err != nil || got != p {
			t.Errorf("%+v read as %+v, %v", p, got, err)
		}
		if in.Len() != 4 {
			t.Errorf("%d bytes left of what follows", in.Len())
		}
	}
	id, err := readAnswer(bytes.NewReader(encodeAccept(identity("b"))))
	if err != nil || id != identity("b") {
		t.Errorf("answer read as %+v, %v", id, err)
	}
	long := strings.Repeat("reason ", 1000)
	if _, err := readAnswer(bytes.NewReader(encodeRefuse(long))); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "reason") {
		t.Errorf("refusal read as %v", err)
	}
}

func TestForeignVersionsAreNamed(t *testing.T) {
	b := prefaces[0].encode()
	b[4] = 9
	if _, err := readPreface(bytes.NewReader(b)); err == nil || errors.Is(err, errNotPeer) || !strings.Contains(err.Error(), "version 9") {
		t.Errorf("newer preface: %v", err)
	}
	b = encodeRefuse("too old")
	b[4] = 9
	if _, err := readAnswer(bytes.NewReader(b)); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "too old") {
		t.Errorf("newer refusal: %v", err)
	}
	if _, err := readPreface(strings.NewReader("GET / HTTP/1.1\r\n\r\n")); !errors.Is(err, errNotPeer) {
		t.Errorf("HTTP: %v", err)
	}
}

func FuzzPreface(f *testing.F) {
	for _, p := range prefaces {
		f.Add(p.encode()[prefixLen:])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := decodePreface(body)
		if err != nil {
			return
		}
		if again, err := decodePreface(p.encode()[prefixLen:]); err != nil || again != p {
			t.Errorf("%+v, again %+v, %v", p, again, err)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(byte(1), encodeAccept(identity("b"))[prefixLen:])
	f.Add(byte(1), encodeRefuse("no")[prefixLen:])
	f.Fuzz(func(t *testing.T, version byte, body []byte) {
		if id, err := decodeAnswer(version, body); err == nil && version != prefaceVersion {
			t.Errorf("version %d accepted as %+v", version, id)
		}
	})
}
