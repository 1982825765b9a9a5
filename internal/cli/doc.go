// Package cli is the command line: one file a command, each a client of a
// node's HTTP API or Redis port, but for serve and dev, which run nodes.
//
// Invariants: results go to standard output, everything else to standard error;
// a failure is one line that says what is wrong and what to do; the exit status
// is 0 done, 1 the cluster said no or could not be reached, 2 usage, 3 only from
// status --check; flags stand before or after arguments, and -- ends them;
// arguments are bytes and are never changed.
//
// It must not know how a node works: it shares with it only the JSON types of
// node/api and the settings of node/config.
package cli
