package main

import (
	"fmt"
	"slices"

	"shardkv/internal/bench/load"
)

const (
	value     = 256 // bytes; the usual size
	valueTiny = 16
	valueBig  = 4096
	pipelined = 16
)

// workload is one row of the tables.
type workload struct {
	op                       string
	clients, value, pipeline int
}

func (w workload) name() string {
	n := fmt.Sprintf("%s-%d", w.op, w.clients)
	if w.value != value {
		n += fmt.Sprintf("-%dB", w.value)
	}
	if w.pipeline > 1 {
		n += fmt.Sprintf("-pipeline%d", w.pipeline)
	}
	return n
}

func (w workload) String() string { return w.name() }

// workloads stand in the order in which they run. Each size of values has keys
// of its own; appends come last, since they make values longer.
var workloads = func() (list []workload) {
	each := func(op string) {
		for _, clients := range []int{1, 16, 64, 256} {
			list = append(list, workload{op, clients, value, 1})
		}
	}
	each(load.Set)
	each(load.Get)
	each(load.Mixed)
	list = append(list, workload{load.Set, 64, value, pipelined}, workload{load.Get, 64, value, pipelined})
	each(load.Append)
	for _, size := range []int{valueTiny, valueBig} {
		for _, op := range []string{load.Set, load.Get, load.Mixed, load.Append} {
			list = append(list, workload{op, 64, size, 1})
		}
	}
	return list
}()

// shortCases are the workloads that say most, for -short.
var shortCases = []string{"set-1", "set-64", "set-256", "get-64", "get-256", "mixed-64", "set-64-pipeline16", "append-64"}

// store is one column: servers, and how clients reach them. Stores of the same
// servers are measured on the same start of them.
type store struct {
	name    string
	servers string // key of starters
	client  string // load.Spec.Store
	peer    bool   // the client is in the module peers
	only    []string
}

var stores = []store{
	{name: "shardkv", servers: "shardkv", client: "resp"},
	{name: "shardkv-aware", servers: "shardkv", client: "resp-cluster"},
	{name: "etcd", servers: "etcd", client: "etcd", peer: true},
	{name: "nats", servers: "nats", client: "nats", peer: true},
	{name: "redis", servers: "redis", client: "resp-cluster"},
	{name: "shardkv-1group", servers: "shardkv-1group", client: "resp", only: groupCases},
	{name: "shardkv-9groups", servers: "shardkv-9groups", client: "resp", only: groupCases},
}

// groupCases are the workloads that compare numbers of groups.
var groupCases = []string{"set-256", "get-256"}

// ratios are the comparisons: first through second.
var ratios = [][2]string{
	{"shardkv", "etcd"},
	{"shardkv", "nats"},
	{"shardkv-aware", "etcd"},
	{"shardkv-aware", "redis"},
	{"shardkv-9groups", "shardkv-1group"},
}

func storeNames() []string {
	var names []string
	for _, s := range stores {
		names = append(names, s.name)
	}
	return names
}

func findStore(name string) (store, bool) {
	i := slices.IndexFunc(stores, func(s store) bool { return s.name == name })
	if i < 0 {
		return store{}, false
	}
	return stores[i], true
}

// runs says whether the store can be asked for the workload at all: clients of
// etcd and NATS have no pipelines.
func (s store) runs(w workload) bool {
	if s.peer && w.pipeline > 1 {
		return false
	}
	return s.only == nil || slices.Contains(s.only, w.name())
}

// schedule returns the servers of the chosen stores in the order of a round:
// each round begins with another, so that none always meets the quietest disk.
func schedule(names []string, round int) (order []string, of map[string][]store) {
	of = map[string][]store{}
	for _, name := range names {
		s, _ := findStore(name)
		if !slices.Contains(order, s.servers) {
			order = append(order, s.servers)
		}
		of[s.servers] = append(of[s.servers], s)
	}
	turn := (round - 1) % len(order)
	order = slices.Concat(order[turn:], order[:turn])
	if round%2 == 0 {
		for _, list := range of {
			slices.Reverse(list)
		}
	}
	return order, of
}
