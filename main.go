// Command shardkv is a sharded, linearizable key-value store that speaks the
// Redis protocol: node, cluster in a box and command line client in one binary.
package main

import (
	"os"

	"shardkv/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
