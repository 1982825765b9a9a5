package node

import (
	"testing"

	"shardkv/node/config"
	"shardkv/store"
)

// The sum follows the settings and the roles; a setting that it left out would
// make the limit of the garbage collector a lie.
func TestMemory(t *testing.T) {
	base := config.Default()
	sum := Sum(Memory(base))
	for what, change := range map[string]func(*config.Config){
		"memtable":       func(c *config.Config) { c.Memory.Memtable *= 2 },
		"block cache":    func(c *config.Config) { c.Memory.BlockCache *= 2 },
		"log cache":      func(c *config.Config) { c.Memory.LogCache *= 2 },
		"client output":  func(c *config.Config) { c.Memory.ClientOutput *= 2 },
		"parallel pulls": func(c *config.Config) { c.Migration.ParallelPulls *= 2 },
		"groups":         func(c *config.Config) { c.Roles.Groups = append(c.Roles.Groups, 2) },
		"replicas":       func(c *config.Config) { c.Cluster.GroupReplicas += 2 },
	} {
		c := config.Default()
		change(&c)
		if got := Sum(Memory(c)); got <= sum {
			t.Errorf("more %s: %d MiB, before %d", what, got>>20, sum>>20)
		}
	}
	gateway := config.Default()
	gateway.Roles = config.Roles{}
	if got := Sum(Memory(gateway)); got >= sum {
		t.Errorf("a gateway takes %d MiB, a replica %d", got>>20, sum>>20)
	}
	if got, least := (store.Config{}).Memory(), int64(3*16<<20); got < least {
		t.Errorf("a store of three memtables takes %d bytes", got)
	}
}
