// Package config turns a TOML file into the Config of one node.
//
// Invariants: a Config that Load, Parse or Complete returned is whole (every
// default filled in, every address dialable, every count in range) and is not
// changed afterwards; whatever is wrong is found before anything is opened or
// written, all of it at once, each fault with its key and line; neither the
// password nor the gossip key is ever printed.
//
// It must not know what a node does with its settings: no listener, no
// directory and no other node is touched here.
package config
