// Package e2e holds the tests that start real processes (build tag e2e): what
// a stranger would do to a cluster, and what must then hold.
//
// Each test has a short form, for every change, and with SHARDKV_E2E=long the
// number of rounds and the bounds of the acceptance table; that takes hours, so
// give go test a -timeout. SHARDKV_E2E_ROUNDS is another number of rounds for
// TestKillAll, SHARDKV_E2E_INCREMENTS of increments for TestIncrements. Without
// SHARDKV_BIN the binary is built first. Histories that are not legal are saved
// with -artifacts.
package e2e
