package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

const (
	serverA = "a.00000001"
	serverB = "b.00000001"
)

// echo serves streams until they are closed.
func echo(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, conn)
		}()
	}
}

func roundTrip(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("ping")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 4))
	return err
}

func TestStreamsReachTheirReplicaOnly(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		a, b := r.open("a", nil), r.open("b", nil)
		go echo(b.Raft(1, 7, serverB))
		near := a.Raft(1, 7, serverA)
		conn, err := near.Dial(serverB, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := roundTrip(conn); err != nil {
			t.Fatal(err)
		}
		for name, s := range map[string]*Streams{"group": a.Raft(2, 7, serverA), "epoch": a.Raft(1, 8, serverA)} {
			if _, err := s.Dial(serverB, 5*time.Second); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no replica") {
				t.Errorf("another %s: %v", name, err)
			}
		}
		if _, err := near.Dial("b.00000002", 5*time.Second); !errors.Is(err, ErrRefused) {
			t.Errorf("a replica of an earlier disk: %v", err)
		}
		if _, err := near.Dial("b", time.Second); err == nil {
			t.Error("an address that is no server id was dialed")
		}
	})
}

func TestCutStreamsStayCut(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		a, b := r.open("a", nil), r.open("b", nil)
		go echo(b.Raft(1, 7, serverB))
		near := a.Raft(1, 7, serverA)
		go echo(near)
		out, err := near.Dial(serverB, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		in, err := b.Raft(1, 7, "b.other").Dial(serverA, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(roundTrip(out), roundTrip(in)); err != nil {
			t.Fatal(err)
		}
		near.Cut()
		if roundTrip(out) == nil || roundTrip(in) == nil {
			t.Error("an open stream outlived the cut")
		}
		if _, err := near.Dial(serverB, 5*time.Second); !errors.Is(err, ErrClosed) {
			t.Errorf("dialed after the cut: %v", err)
		}
		if _, err := b.Raft(1, 7, "b.other").Dial(serverA, 5*time.Second); !errors.Is(err, ErrRefused) {
			t.Errorf("reached after the cut: %v", err)
		}
		fresh := a.Raft(1, 7, serverA) // the replica is opened anew
		go echo(fresh)
		conn, err := fresh.Dial(serverB, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		near.Close() // late; must not touch the new one
		if err := roundTrip(conn); err != nil {
			t.Error(err)
		}
		if _, err := b.Raft(1, 7, "b.other").Dial(serverA, 5*time.Second); err != nil {
			t.Errorf("new replica not reached: %v", err)
		}
		if _, err := a.Ask(within(t, time.Minute), "b", kindEcho, nil); err != nil {
			t.Errorf("calls suffer from the cut: %v", err)
		}
	})
}

func TestCloseEndsAccept(t *testing.T) {
	a := newRig(t, true).open("a", nil)
	s := a.Raft(1, 7, serverA)
	ended := make(chan error, 1)
	go func() { _, err := s.Accept(); ended <- err }()
	a.Close()
	if err := <-ended; err == nil {
		t.Error("accepted after Close")
	}
	if _, err := a.Raft(1, 7, serverA).Dial(serverB, time.Second); !errors.Is(err, ErrClosed) {
		t.Errorf("dialed after Close: %v", err)
	}
	if _, err := a.Ask(context.Background(), "b", kindEcho, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("asked after Close: %v", err)
	}
}
