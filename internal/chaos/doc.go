// Package chaos breaks a real cluster in every way that its kernel allows while
// clients work and shards move, and judges what the clients were told. Its tests
// stand behind the build tag chaos and need root; docs/TESTING.md says how to
// run and replay them.
//
// A run is drawn from one seed (plan), carried out on processes in network
// namespaces (netns, harness) within a safety envelope, and judged from recorded
// histories (load, history) and from what the cluster says of itself. Nothing
// here is known to the product.
package chaos
