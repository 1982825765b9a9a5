package node

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := func(c *wallClock) time.Duration {
			return time.Duration(c.Now()-time.Now().UnixMilli()) * time.Millisecond
		}
		for setting, want := range map[string]time.Duration{"": 0, "1m": time.Minute, "-3s": -3 * time.Second} {
			c, err := newWallClock(setting)
			if err != nil || ahead(c) != want {
				t.Errorf("%q: %v ahead, %v", setting, ahead(c), err)
			}
		}
		file := filepath.Join(t.TempDir(), "offset")
		write := func(s string) {
			if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("10s\n")
		c, err := newWallClock("@" + file)
		if err != nil || ahead(c) != 10*time.Second {
			t.Fatalf("%v ahead, %v", ahead(c), err)
		}
		write("-1h")
		<-time.After(offsetEvery)
		if ahead(c) != -time.Hour {
			t.Errorf("a changed file: %v ahead", ahead(c))
		}
		write("half wri")
		<-time.After(offsetEvery)
		if ahead(c) != -time.Hour {
			t.Errorf("an unreadable file: %v ahead", ahead(c))
		}
		for _, bad := range []string{"soon", "@" + file, "@" + file + "x"} {
			if _, err := newWallClock(bad); err == nil {
				t.Errorf("%q was taken", bad)
			}
		}
	})
}
