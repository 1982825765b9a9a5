package membership

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"

	"shardkv/internal/shard"
)

func largestRecord() record {
	r := record{Member: Member{
		Node: strings.Repeat("f", 32), Cluster: longestCluster, Placement: "balanced", Version: "v1.22.333-rc.1",
		Client: "255.255.255.255:65535", Peer: "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
		HTTP: strings.Repeat("h", 100) + ":65535", Shards: 16384, CtrlerReplicas: 65535, Ctrler: true, Formed: true,
	}, started: 1 << 62, settled: true, leaving: true}
	for i := range 32 {
		r.Groups = append(r.Groups, shard.GID(1<<32-1-i))
	}
	return r
}

func TestMetaFitsAndReturns(t *testing.T) {
	for _, r := range []record{largestRecord(), {Member: Member{Node: strings.Repeat("0", 32)}}} {
		b := appendMeta(nil, r)
		if len(b) > memberlist.MetaMaxSize {
			t.Errorf("%d bytes", len(b))
		}
		got, err := readMeta(b)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("read as %+v, %v\nwant %+v", got, err, r)
		}
	}
	odd := []string{"", ":7379", "01.2.3.4:1", "[::ffff:1.2.3.4]:80", "[fe80::1%eth0]:80", "host", "host:99999"}
	for _, addr := range odd {
		r := record{Member: Member{Node: strings.Repeat("0", 32), Client: addr}}
		if got, err := readMeta(appendMeta(nil, r)); err != nil || got.Client != addr {
			t.Errorf("%q read as %q, %v", addr, got.Client, err)
		}
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(appendMeta(nil, largestRecord()))
	f.Add([]byte{metaVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := readMeta(b)
		if err != nil {
			return
		}
		again, err := readMeta(appendMeta(nil, r))
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v, again %+v, %v", r, again, err)
		}
	})
}

func FuzzPeersFile(f *testing.F) {
	f.Add(encodePeers([]netip.AddrPort{netip.MustParseAddrPort("1.2.3.4:5"), netip.MustParseAddrPort("[::1]:5")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		peers, err := decodePeers(b)
		if err != nil {
			return
		}
		if again, err := decodePeers(encodePeers(peers)); err != nil || !slices.Equal(again, peers) {
			t.Errorf("%v, again %v, %v", peers, again, err)
		}
	})
}
