// Package netns gives each node of a test cluster a network namespace and an
// address of its own on one bridge, and breaks the links between them: cuts in
// one or both directions, loss, throttled and unplugged links.
//
// Everything is named after this process's pid. Close removes it; what a killed
// process left behind is removed by the next Open. It needs root, ip and nft,
// touches no interface it did not make, and knows nothing of the product.
package netns
