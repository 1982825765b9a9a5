// Package apitest is a cluster without nodes, for tests of whoever speaks to
// the API: small, in memory, the same answers each time.
//
// It must not know HTTP or the CLI, and nothing but tests may import it.
package apitest
