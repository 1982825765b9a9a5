//go:build !failpoint

package failpoint

// Enabled says whether points can fire in this build.
const Enabled = false

// Hit passes a point.
func Hit(string) {}
