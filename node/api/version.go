package api

import "runtime/debug"

// release is what this source calls itself where the build knows no better.
const release = "0.1.0"

// Version names this binary: the release and, where the build recorded it, the
// commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	var commit, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			commit = "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".dirty"
		}
	}
	return release + commit + dirty
}
