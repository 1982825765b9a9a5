package config

import "testing"

// TestSpace: a threshold that is read wrongly refuses writes on a disk with
// room, or notices a full one too late.
func TestSpace(t *testing.T) {
	const total = 1000 << 20
	for text, want := range map[string]int64{
		"5%": 50 << 20, "0.5%": 5 << 20, "0%": 0, "90 %": 900 << 20, "1e1%": 100 << 20,
		"0B": 0, "17B": 17, "1KiB": 1 << 10, "512MiB": 512 << 20, "20 GiB": 20 << 30, "1TiB": 1 << 40, "5MB": 5 << 20, "1TB": 1 << 40,
	} {
		s, err := ParseSpace(text)
		if err != nil || s.Of(total) != want {
			t.Errorf("%q: %d, %v; want %d", text, s.Of(total), err, want)
		}
	}
	for _, text := range []string{"", "%", "B", "5", "5 percent", "-5%", "Inf%", "NaN%", "-1MiB", "1.5GiB", "9000000000GiB", "0x10B"} {
		if s, err := ParseSpace(text); err == nil {
			t.Errorf("%q was read as %+v", text, s)
		}
	}
	for _, s := range []Space{{Bytes: -1}, {Percent: -1}, {Percent: 90.5}} {
		c := Default()
		c.Storage.MinFree = s
		if _, err := c.Complete(testHost); err == nil {
			t.Errorf("%+v was taken for a threshold", s)
		}
	}
}
