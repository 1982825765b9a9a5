//go:build !linux

package transport

import "time"

// setUserTimeout has no equivalent here: keepalive alone notices a silent host.
func setUserTimeout(uintptr, time.Duration) error { return nil }
