// Package api serves a node's HTTP interface: the state of the cluster as JSON,
// changes of the configuration, health, readiness and metrics. Its types are
// the JSON of the product: field names and order are part of the contract with
// scripts, and lists are never null.
//
// Invariants: no answer waits longer than the bound of its handler; bodies,
// headers and connections are bounded before they are read; every error is
// {"error": "one line"}; with a password set only /healthz, /readyz and
// /metrics answer without it.
//
// It must not know where the answers come from: Cluster is declared here and
// implemented by the node.
package api
