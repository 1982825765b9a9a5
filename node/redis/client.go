package redis

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// relabel changes what the client says of itself.
func (c *conn) relabel(change func(l *label)) {
	l := *c.shown.label.Load()
	change(&l)
	c.shown.label.Store(&l)
}

// printable says that a name can stand in CLIENT LIST.
func printable(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			return false
		}
	}
	return len(name) <= MaxClientName
}

func (c *conn) clientID([][]byte) { c.writer.Int(c.id) }

func (c *conn) clientGetName([][]byte) {
	if name := c.shown.label.Load().name; name != "" {
		c.writer.BulkString(name)
		return
	}
	c.writer.Null()
}

func (c *conn) clientSetName(args [][]byte) {
	if !printable(args[2]) {
		c.refuse(textName)
		return
	}
	c.relabel(func(l *label) { l.name = string(args[2]) })
	c.writer.Status("OK")
}

func (c *conn) clientSetInfo(args [][]byte) {
	value, option := string(args[3]), strings.ToLower(string(args[2]))
	switch {
	case option != "lib-name" && option != "lib-ver":
		c.refuse(fmt.Sprintf("ERR Unrecognized option '%.*s'", quoted, args[2]))
		return
	case !printable(args[3]):
		c.refuse("ERR " + option + " cannot contain spaces, newlines or special characters.")
		return
	}
	c.relabel(func(l *label) {
		if option == "lib-name" {
			l.libName = value
		} else {
			l.libVer = value
		}
	})
	c.writer.Status("OK")
}

// clientSwitch is NO-EVICT and NO-TOUCH: there is nothing to switch.
func (c *conn) clientSwitch(args [][]byte) {
	if v := strings.ToLower(string(args[2])); v != "on" && v != "off" {
		c.refuse(textSyntax)
		return
	}
	c.writer.Status("OK")
}

func (c *conn) clientInfo([][]byte) { c.writer.Verbatim(c.describe() + "\n") }

// clientList is CLIENT LIST [TYPE type] [ID id …].
func (c *conn) clientList(args [][]byte) {
	keep := func(*conn) bool { return true }
	if len(args) > 2 {
		switch option := strings.ToLower(string(args[2])); {
		case option == "type" && len(args) == 4:
			switch kind := strings.ToLower(string(args[3])); kind {
			case "normal":
			case "master", "replica", "slave", "pubsub":
				keep = func(*conn) bool { return false }
			default:
				c.refuse(fmt.Sprintf("ERR Unknown client type '%.*s'", quoted, args[3]))
				return
			}
		case option == "id" && len(args) > 3:
			ids := make(map[int64]bool, len(args)-3)
			for _, a := range args[3:] {
				id, err := strconv.ParseInt(string(a), 10, 64)
				if err != nil || id <= 0 {
					c.refuse("ERR Invalid client ID")
					return
				}
				ids[id] = true
			}
			keep = func(other *conn) bool { return ids[other.id] }
		default:
			c.refuse(textSyntax)
			return
		}
	}
	var b strings.Builder
	for _, other := range c.server.all() {
		if keep(other) {
			b.WriteString(other.describe())
			b.WriteByte('\n')
		}
	}
	c.writer.Verbatim(b.String())
}

// describe is the line of a connection in CLIENT LIST; any goroutine may ask.
func (c *conn) describe() string {
	l, version, last := c.shown.label.Load(), 2, "NULL"
	if c.shown.resp3.Load() {
		version = 3
	}
	if cmd := c.shown.last.Load(); cmd != nil {
		last = cmd.name
	}
	idle := time.Since(c.server.started) - time.Duration(c.shown.active.Load())*time.Millisecond
	return fmt.Sprintf("id=%d addr=%s laddr=%s fd=0 name=%s age=%d idle=%d flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 cmd=%s user=default redir=-1 resp=%d lib-name=%s lib-ver=%s",
		c.id, c.net.RemoteAddr(), c.net.LocalAddr(), l.name, int(time.Since(c.born).Seconds()), max(0, int(idle.Seconds())), last, version, l.libName, l.libVer)
}
