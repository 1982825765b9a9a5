// Package e2e holds the tests that start real processes (build tag e2e): what
// a stranger would do to a cluster, and what must then hold.
package e2e
