package sim

import (
	"fmt"
	"strconv"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

// patience is how long a client's command may take before its node answers.
const patience = 2 * second

// client is one connection to one host, on one of its lanes. It sends a few
// commands at once and waits for all of them.
type client struct {
	w    *world
	host *host
	lane int
	id   int // new with each connection
	open []*op
}

// op is one command of a client.
type op struct {
	c       *client
	cmd     kv.Command
	shard   shard.ID
	began   int64 // true time
	order   int   // when it began, in events
	ended   bool
	list    *listKey
	token   *token
	ttl     *ttlKey
	settled func(o *op, how how, reply kv.Reply)
}

// how an op ended.
type how uint8

const (
	acked how = iota
	notDone
	unknowable
)

func newClient(w *world, n int) *client {
	c := &client{w: w}
	c.connect(n)
	return c
}

func (c *client) connect(n int) {
	c.host, c.lane = c.w.hosts[n%hosts], c.w.n(laneCount)
	c.w.oracle.clients++
	c.id = c.w.oracle.clients
}

// disconnect: the host died, so whatever was in flight is unknown.
func (c *client) disconnect() {
	for _, o := range c.open {
		o.unknown()
	}
	c.open = nil
	c.connect(c.w.n(hosts))
}

func (c *client) act() {
	if c.host.down || c.host.paused {
		if c.host.down && c.w.chance(50) {
			c.disconnect()
		}
		return
	}
	c.open = live(c.open)
	if len(c.open) > 0 {
		return
	}
	switch p := c.w.n(100); {
	case p < c.w.profile.ttl/4 || p < c.w.profile.ttl && len(c.w.ttl) == 0:
		c.setTTL()
	case p < c.w.profile.ttl:
		c.readTTL(c.w.ttl[len(c.w.ttl)-1-c.w.n(min(len(c.w.ttl), 6))])
	case p < c.w.profile.ttl+20:
		c.readList(c.w.keys[c.w.n(len(c.w.keys))])
	default:
		c.appendSome()
	}
}

// appendSome sends a few appends at once, mostly to one key.
func (c *client) appendSome() {
	key := c.w.keys[c.w.n(len(c.w.keys))]
	for range 1 + c.w.n(3) {
		c.append(key)
		if c.w.chance(30) {
			key = c.w.keys[c.w.n(len(c.w.keys))]
		}
	}
}

func live(ops []*op) (rest []*op) {
	for _, o := range ops {
		if !o.ended {
			rest = append(rest, o)
		}
	}
	return rest
}

func command(words ...string) kv.Command {
	args := make([][]byte, len(words))
	for i, word := range words {
		args[i] = []byte(word)
	}
	c, err := kv.Parse(args)
	if err != nil {
		panic(err)
	}
	return c
}

// submit queues a write on the connection's lane.
func (c *client) submit(o *op) {
	o.c, o.began, o.order = c, c.w.now, c.w.order
	o.shard = shard.Of(o.cmd.Args[0], shards)
	c.open = append(c.open, o)
	p := c.host.lanes[c.lane].pipes[o.shard]
	p.queue = append(p.queue, o)
}

func (c *client) append(k *listKey) {
	t := c.w.oracle.newToken(c, k)
	c.submit(&op{cmd: command("append", k.name, t.text), list: k, token: t, settled: settleAppend})
}

func (c *client) setTTL() {
	n := len(c.w.ttl)
	k := &ttlKey{name: fmt.Sprintf("ttl%d", n), life: []int64{300, 3 * second, 40 * second, 3 * minute, 20 * minute}[c.w.n(5)]}
	c.w.ttl = append(c.w.ttl, k)
	k.began = c.w.now
	c.submit(&op{cmd: command("set", k.name, "v", "px", strconv.FormatInt(k.life, 10)), ttl: k, settled: settleSet})
}

func (c *client) readList(k *listKey) {
	c.read(&op{cmd: command("get", k.name), list: k, settled: settleRead})
}

func (c *client) readTTL(k *ttlKey) {
	c.read(&op{cmd: command("get", k.name), ttl: k, settled: settleGone})
}

// read asks a replica, by any route; a read that fails is forgotten.
func (c *client) read(o *op) {
	o.c, o.began, o.order = c, c.w.now, c.w.order
	o.shard = shard.Of(o.cmd.Args[0], shards)
	o.floor()
	g := c.w.groups[c.host.config.Owners[o.shard]]
	if g == nil {
		c.host.refresh()
		return
	}
	c.open = append(c.open, o)
	r := g.replicas[c.w.n(hosts)]
	if l := g.lead(); l != nil && c.w.chance(60) {
		r = l
	}
	quit := func() { o.ended = true }
	c.w.send(r.host.id, func() { r.read(o, c.host, quit) }, quit)
}

func (o *op) late() bool { return o.c.w.now-o.began > patience }

func (o *op) ok(reply kv.Reply) { o.end(acked, reply) }
func (o *op) okWithout()        { o.end(acked, kv.Reply{}) }
func (o *op) refused()          { o.end(notDone, kv.Reply{}) }
func (o *op) unknown()          { o.end(unknowable, kv.Reply{}) }

func (o *op) end(h how, reply kv.Reply) {
	if !o.ended {
		o.ended = true
		o.settled(o, h, reply)
	}
}
