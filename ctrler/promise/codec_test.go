package promise

import (
	"bytes"
	"reflect"
	"testing"
)

var (
	someProposal = Proposal{"u1", "n1", []string{"n1", "n2"}, Setup{256, "ring", 2}, 3}
	someSaved    = []Saved{{}, {Promise: someProposal, Dead: []string{"u0", ""}},
		{Promise: someProposal, Voters: []Voter{{"n1", "n1.7", "host-a"}, {"n2", "n2.1", ""}}}}
	someMessages = []Message{
		{Kind: Propose, From: "n1", To: "n2", Proposal: someProposal},
		{Kind: Promise, From: "n2", To: "n1", Proposal: someProposal, Voter: Voter{"n2", "n2.1", "host-b"}},
		{Kind: Refuse, From: "n2", To: "n1", Proposal: someProposal, Holding: "n0", Cluster: "u7"},
		{Kind: Dead, From: "n2", To: "n1"},
	}
)

func TestCodecs(t *testing.T) {
	for _, s := range someSaved {
		b := s.Append(nil)
		if got, err := ReadSaved(b); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%+v read back as %+v, %v", s, got, err)
		}
		for n := range b {
			if _, err := ReadSaved(b[:n]); err == nil {
				t.Errorf("%+v: the first %d bytes are taken for the whole", s, n)
			}
		}
	}
	for _, m := range someMessages {
		b := m.Append(nil)
		if got, err := ReadMessage(b); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%+v read back as %+v, %v", m, got, err)
		}
		b[0]++
		if _, err := ReadMessage(b); err == nil {
			t.Errorf("%v: an unknown version is taken", m.Kind)
		}
	}
}

func FuzzSaved(f *testing.F) {
	for _, s := range someSaved {
		f.Add(s.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ReadSaved(b)
		if err != nil {
			return
		}
		if again, err := ReadSaved(s.Append(nil)); err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%+v read back as %+v, %v", s, again, err)
		}
	})
}

// FuzzMessage: whatever arrives, a machine survives it.
func FuzzMessage(f *testing.F) {
	for _, m := range someMessages {
		f.Add(m.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		msg, err := ReadMessage(b)
		if err != nil {
			return
		}
		if again, err := ReadMessage(msg.Append(nil)); err != nil || !bytes.Equal(again.Append(nil), msg.Append(nil)) {
			t.Fatalf("%+v read back as %+v, %v", msg, again, err)
		}
		for _, saved := range someSaved {
			m := New(Config{Self: Voter{"n2", "n2.1", "host-b"}, Setup: someProposal.Setup}, saved, "")
			view := View{Members: []Member{{ID: "n1", Ctrler: true, Setup: someProposal.Setup}, {ID: "n2", Ctrler: true, Setup: someProposal.Setup}}}
			msg.To = "n2"
			m.Step(Input{View: &view, Elapsed: 10, Message: &msg, Fresh: "u9"})
			m.Step(Input{Elapsed: 10 * UnseenLimit, Fresh: "u10"})
			m.Waiting()
		}
	})
}
