package config

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardkv/internal/shard"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected lines in testdata")

const samples = "../../testdata/config"

// testHost has two private addresses: a wildcard needs an advertise address.
var testHost = Host{Name: "host-a", Private: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("192.168.0.1")}}

// TestBad: each file says on its first line what is wrong with it. If this
// fails, a user with a broken file reads something useless, or is not stopped.
func TestBad(t *testing.T) {
	files, err := filepath.Glob(samples + "/bad/*.toml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, rest, _ := strings.Cut(string(text), "\n")
			_, err = Parse(filepath.Base(file), text, testHost)
			if err == nil {
				t.Fatal("accepted")
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte("# want: "+err.Error()+"\n"+rest), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := strings.TrimPrefix(first, "# want: "); err.Error() != want {
				t.Errorf("got  %s\nwant %s", err, want)
			}
			checkLine(t, err)
		})
	}
}

func checkLine(t *testing.T, err error) {
	t.Helper()
	switch s := err.Error(); {
	case strings.ContainsAny(s, "\n\r\x00"):
		t.Errorf("more than one line: %q", s)
	case len(s) > 400:
		t.Errorf("%d bytes: %s", len(s), s)
	case strings.Contains(s, "secret"):
		t.Errorf("shows the password: %s", s)
	}
}

// TestExample: the example shows every key, and what it shows are the defaults.
func TestExample(t *testing.T) {
	text, err := os.ReadFile("../../config.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("config.example.toml", text, testHost)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Default().Complete(testHost)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Name != "host-a" || got.Advertise != got.Listen {
		t.Errorf("name and advertise do not come from the host: %+v", got)
	}
	for key := range keys {
		name := key[strings.LastIndexByte(key, '.')+1:]
		if !regexp.MustCompile(`(?m)^(# )?` + name + ` *=.*#.*[a-z]`).Match(text) {
			t.Errorf("%s is not shown with a comment", key)
		}
	}
}

func TestGood(t *testing.T) {
	c, err := parseFile("host-a.toml", testHost)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Name: "host-a", DataDir: "/srv/shardkv",
		Cluster: Cluster{"shop", 64, Balanced, 3, 3},
		Roles:   Roles{true, []shard.GID{1, 2, 3}},
		Listen:  Addresses{"0.0.0.0:7379", "10.0.0.1:7380", "10.0.0.1:7381", "127.0.0.1:7382"},
		Advertise: Addresses{
			"host-a.example.com:7379", "10.0.0.1:7380", "10.0.0.1:7381", "127.0.0.1:7382",
		},
		Gossip: Gossip{
			[]string{"10.0.0.1:7381", "10.0.0.2:7381", "ctrlers.example.com:7381", "[fd00::3]:7381"},
			"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f",
		},
		Groups:    Groups{false, 10 * time.Minute},
		Client:    Client{750 * time.Millisecond, true, "open sesame", 250 * time.Millisecond, true, BalanceRoundRobin},
		Storage:   Storage{Space{Bytes: 20 << 30}},
		Migration: Migration{12 << 20, 4},
		Memory:    Memory{64 << 20, 32 << 20, 8 << 20, 1 << 30},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
	one := Host{Name: "gate", Private: []netip.Addr{netip.MustParseAddr("fd00::9")}}
	if _, err := parseFile("gateway.toml", one); err == nil || err.Error() !=
		`gateway.toml:4: advertise.peer: needed, since listen.peer is "0.0.0.0:7380" and this host has no private address to take instead` {
		t.Errorf("an IPv4 listener on an IPv6 host: %v", err)
	}
	one.Private[0] = netip.MustParseAddr("10.0.0.9")
	c, err = parseFile("gateway.toml", one)
	if err != nil {
		t.Fatal(err)
	}
	if c.Name != "gate" || c.Roles.Ctrler || len(c.Roles.Groups) != 0 ||
		c.Advertise != (Addresses{"10.0.0.9:7379", "10.0.0.9:7380", "10.0.0.9:7381", "127.0.0.1:7382"}) {
		t.Errorf("got %+v", c)
	}
}

func parseFile(name string, h Host) (Config, error) {
	text, err := os.ReadFile(filepath.Join(samples, "good", name))
	if err != nil {
		return Config{}, err
	}
	return Parse(name, text, h)
}

func TestLoad(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.toml")); err == nil || !strings.Contains(err.Error(), "none.toml: the configuration file cannot be read: no such file") {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("directory: %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.toml")
	if err := os.WriteFile(large, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large); err == nil || !strings.Contains(err.Error(), "larger than 64 KiB") {
		t.Errorf("large file: %v", err)
	}
	if c, err := Load("../../config.example.toml"); err != nil || c.Cluster.Shards != 256 {
		t.Errorf("example on this host: %+v, %v", c, err)
	}
}

// TestComplete: configurations built by the program are judged alike, and all
// faults are reported at once.
func TestComplete(t *testing.T) {
	c := Default()
	c.Cluster.Shards, c.Cluster.Placement, c.Listen.HTTP = 0, "", ""
	_, err := c.Complete(testHost)
	e, ok := err.(*Error)
	if !ok || len(e.Faults) != 3 || !strings.HasSuffix(e.Error(), "(and 2 more faults)") {
		t.Fatalf("got %v", err)
	}
	if _, err := Default().Complete(Host{}); err == nil || err.Error() != "name: this host has no name: set one" {
		t.Errorf("host without a name: %v", err)
	}
}

func TestSecret(t *testing.T) {
	c := Default()
	c.Client.Password, c.Gossip.Key = "hunter2", "0123456789abcdef"
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		s := fmt.Sprintf(format, c)
		if strings.Contains(s, "hunter2") || strings.Contains(s, "68756e74657232") || strings.Contains(s, "0123456789abcdef") {
			t.Errorf("%s shows a secret: %s", format, s)
		}
	}
}

func TestHint(t *testing.T) {
	for key, want := range map[string]string{
		"shrads": "cluster.shards", "cluster.shrads": "cluster.shards", "shards": "cluster.shards", "cluster.timeout": "client.timeout",
		"dataDir": "data_dir", "datadir": "data_dir", "listen.clent": "listen.client", "advertize": "[advertise]",
		"group": "[groups]", "tls": "", "gossip.keys": "gossip.key", "roles.group": "roles.groups", "join": "gossip.join",
		"client.pasword": "client.password", "x": "", strings.Repeat("n", 100): "",
	} {
		if got := nearest(key); got != want {
			t.Errorf("nearest(%q) = %q, want %q", key, got, want)
		}
	}
}

// FuzzParse: whatever the file, the answer is a whole Config or one line.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob(samples + "/*/*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "../../config.example.toml") {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("f.toml", text, testHost)
		if err != nil {
			if s := err.Error(); strings.ContainsAny(s, "\n\r") || !strings.HasPrefix(s, "f.toml:") {
				t.Errorf("not one line naming the file: %q", s)
			}
			return
		}
		again, err := c.Complete(testHost)
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("not whole: %v\n%+v\n%+v", err, c, again)
		}
	})
}
