package membership

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNodesFindEachOther(t *testing.T) {
	c1 := conf(t, 1)
	c2 := conf(t, 2, c1.Bind)
	c3 := conf(t, 3)
	c1.Join = []string{c1.Bind, c2.Bind, c3.Bind} // itself too
	a, b := open(t, c1), open(t, c2)
	until(t, "two nodes meet", func() bool { return sees(a, "n1", "n2")() && sees(b, "n1", "n2")() })
	if got := a.Unheard(); !slices.Equal(got, []string{c3.Bind}) {
		t.Errorf("unheard: %v", got)
	}
	c := open(t, c3) // is joined, joins nobody
	until(t, "the third is found", func() bool { return sees(c, "n1", "n2", "n3")() && sees(b, "n1", "n2", "n3")() })
	until(t, "everybody is heard", func() bool { return len(a.Unheard()) == 0 })
	for _, m := range b.Members() {
		if m.Name != "n1" {
			continue
		}
		want := c1.Self
		want.Alive, want.Gossip = true, c1.Bind
		if !reflect.DeepEqual(m, want) {
			t.Errorf("member as gossiped:\n%+v\nwant:\n%+v", m, want)
		}
	}
	a.Update(func(m *Member) { m.Cluster, m.Formed, m.Name = "c1", true, "other" })
	until(t, "an update spreads", func() bool {
		m := c.Members()[0]
		return m.Cluster == "c1" && m.Formed && m.Name == "n1"
	})
	select {
	case <-c.Changed():
	case <-time.After(patience):
		t.Error("no wake-up after a change")
	}
}

func TestDeadNodesShowAndComeBack(t *testing.T) {
	c1 := conf(t, 1)
	c2, c3 := conf(t, 2, c1.Bind), conf(t, 3, c1.Bind)
	a, b, c := open(t, c1), open(t, c2), open(t, c3)
	until(t, "three meet", func() bool { return sees(a, "n1", "n2", "n3")() && sees(b, "n1", "n2", "n3")() })
	died := time.Now()
	c.Close()
	until(t, "the dead one shows", func() bool { return sees(a, "n1", "n2")() && sees(b, "n1", "n2")() })
	t.Logf("dead after %v", time.Since(died))
	if m := a.Members(); len(m) != 3 || m[2].Alive {
		t.Errorf("dead member forgotten: %+v", m)
	}
	c3.Bind = freeAddr(t) // it comes back at another address
	c = open(t, c3)
	until(t, "it is back", func() bool { return sees(a, "n1", "n2", "n3")() && sees(b, "n1", "n2", "n3")() })
	if got := a.Members()[2].Gossip; got != c3.Bind {
		t.Errorf("still at %s, not %s", got, c3.Bind)
	}
	if err := c.Leave(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	c.Close()
	until(t, "who left for good is gone", func() bool { return len(a.Members()) == 2 && len(b.Members()) == 2 })
}

func TestQuickReturnAtAnotherAddress(t *testing.T) {
	c1 := conf(t, 1)
	c2 := conf(t, 2, c1.Bind)
	a, b := open(t, c1), open(t, c2)
	until(t, "two meet", func() bool { return sees(a, "n1", "n2")() && sees(b, "n1", "n2")() })
	b.Close()
	c2.Bind = freeAddr(t)
	b = open(t, c2) // while a still thinks it alive at the old one
	until(t, "it is back", func() bool {
		return sees(b, "n1", "n2")() && sees(a, "n1", "n2")() && a.Members()[1].Gossip == c2.Bind
	})
	select {
	case err := <-b.Conflict():
		t.Errorf("its own past counts as a conflict: %v", err)
	case err := <-a.Conflict():
		t.Errorf("a member's conflict: %v", err)
	default:
	}
}

func TestWipedNodeTakesItsNameBack(t *testing.T) {
	c1 := conf(t, 1)
	c2 := conf(t, 2, c1.Bind)
	a, b := open(t, c1), open(t, c2)
	until(t, "two meet", sees(a, "n1", "n2"))
	b.Close()
	c2.Self.Node = strings.Repeat("f", 32) // same address, another id
	open(t, c2)
	until(t, "the new id is known", func() bool { return a.Members()[1].Node == c2.Self.Node && a.Members()[1].Alive })
}

func TestLastKnownPeersAreEnough(t *testing.T) {
	c1 := conf(t, 1)
	c2 := conf(t, 2, c1.Bind)
	a, b := open(t, c1), open(t, c2)
	until(t, "the peer is written down", func() bool { return len(readPeers(c2.PeersFile, b.log)) == 1 })
	b.Close()
	until(t, "the other forgets", sees(a, "n1"))
	a.Close()
	c1.Join, c2.Join = nil, nil
	open(t, c1)
	b = open(t, c2)
	until(t, "they meet without a configured address", sees(b, "n1", "n2"))
}

func TestKeysAndNamesKeepClustersApart(t *testing.T) {
	c1 := conf(t, 1)
	c1.Key = []byte("0123456789abcdef")
	same, plain, other, named := conf(t, 2, c1.Bind), conf(t, 3, c1.Bind), conf(t, 4, c1.Bind), conf(t, 5, c1.Bind)
	same.Key, other.Key, named.Key = c1.Key, []byte("fedcba9876543210"), c1.Key
	named.ClusterName = "test"
	a, b := open(t, c1), open(t, same)
	strangers := []*List{open(t, plain), open(t, other), open(t, named)}
	until(t, "the same key is heard", func() bool { return sees(a, "n1", "n2")() && sees(b, "n1", "n2")() })
	for _, l := range strangers {
		if got := alive(l); len(got) != 1 {
			t.Errorf("a stranger sees %v", got)
		}
		if got := l.Unheard(); !slices.Equal(got, []string{c1.Bind}) {
			t.Errorf("a stranger does not name the address: %v", got)
		}
	}
	if got := alive(a); len(got) != 2 {
		t.Errorf("strangers seen: %v", got)
	}
}

func TestAnotherInterfaceIsHeard(t *testing.T) {
	c1 := conf(t, 1)
	_, port, _ := strings.Cut(c1.Bind, ":")
	c1.Advertise, c1.Bind = c1.Bind, "0.0.0.0:"+port
	c2 := conf(t, 2, "127.0.0.2:"+port) // answers there, advertises 127.0.0.1
	c1.Join = []string{"127.0.0.2:" + port}
	a, b := open(t, c1), open(t, c2)
	until(t, "the alias is heard", func() bool { return len(b.Unheard()) == 0 && len(a.Unheard()) == 0 })
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"no node name":     func(c *Config) { c.Self.Name = "" },
		"32 hex digits":    func(c *Config) { c.Self.Node = "xyz" },
		"no cluster name":  func(c *Config) { c.ClusterName = "" },
		"gossip key":       func(c *Config) { c.Key = []byte("short") },
		"gossip address":   func(c *Config) { c.Bind = "nowhere" },
		"shorten its host": func(c *Config) { c.Self.Peer = strings.Repeat("h", 250) + ":1"; c.Self.HTTP = c.Self.Peer },
	} {
		c := conf(t, 1)
		edit(&c)
		if l, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
			if l != nil {
				l.Close()
			}
		}
	}
	l := open(t, conf(t, 1))
	if err := l.Update(func(m *Member) { m.Version = strings.Repeat("v", 500) }); err == nil || l.Members()[0].Version != "0.1" {
		t.Errorf("too large an update: %v", err)
	}
}
