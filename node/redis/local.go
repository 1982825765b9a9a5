package redis

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strconv"
	"strings"
	"time"

	"shardkv/internal/kv"
)

// Texts of errors, as Redis 7 words them.
const (
	textNoAuth    = "NOAUTH Authentication required."
	textWrongPass = "WRONGPASS invalid username-password pair or user is disabled."
	textSyntax    = "ERR syntax error"
	textNotInt    = "ERR value is not an integer or out of range"
	textHTTP      = "ERR this port speaks the Redis protocol, not HTTP"
	textNoPass    = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	textHelloAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	textName      = "ERR Client names cannot contain spaces, newlines or special characters."
)

// quoted is how much of what a client sent an error repeats, in bytes.
const quoted = 128

// local answers a command that does not go to the Backend, or refuses it.
func (c *conn) local(cmd *command, args [][]byte) {
	switch {
	case cmd == nil && crossProtocol(args[0]):
		c.quit = true
		c.refuse(textHTTP)
		return
	case !c.authed && (cmd == nil || !cmd.noAuth):
		c.refuse(textNoAuth)
		return
	case cmd == nil:
		_, err := kv.Parse(args) // knows the words
		c.refuse(err.Error())
		return
	}
	start := time.Now()
	c.shown.last.Store(cmd)
	c.shown.active.Store(start.Sub(c.server.started).Milliseconds())
	c.dispatch(cmd, args)
	if seen := c.server.metrics.local[cmd]; seen != nil {
		seen.Observe(time.Since(start).Seconds())
	}
}

// dispatch finds the subcommand, if any, checks the number of arguments, runs.
func (c *conn) dispatch(cmd *command, args [][]byte) {
	name, target := cmd.name, cmd
	if len(cmd.subs) > 0 && len(args) > 1 {
		if strings.EqualFold(string(args[1]), "help") && len(args) == 2 {
			c.help(cmd)
			return
		}
		if target = cmd.sub(args[1]); target == nil {
			c.refuse(fmt.Sprintf("ERR unknown subcommand '%.*s'. Try %s HELP.", quoted, args[1], strings.ToUpper(cmd.name)))
			return
		}
		name += "|" + target.name
	}
	if !target.takes(len(args)) {
		c.refuse("ERR wrong number of arguments for '" + name + "' command")
		return
	}
	target.run(c, args)
}

// unreachable stands for a container without a subcommand, which its arity
// refuses.
func (c *conn) unreachable([][]byte) { c.refuse(textSyntax) }

// crossProtocol says that a browser was made to speak to this port.
func crossProtocol(name []byte) bool {
	return strings.EqualFold(string(name), "post") || strings.EqualFold(string(name), "host:")
}

func (c *conn) help(cmd *command) {
	c.writer.Array(1 + 2*len(cmd.subs))
	c.writer.Status(strings.ToUpper(cmd.name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, s := range cmd.subs {
		c.writer.Status(strings.ToUpper(s.name))
		c.writer.Status("    " + s.summary)
	}
}

func (c *conn) ping(args [][]byte) {
	switch len(args) {
	case 1:
		c.writer.Status("PONG")
	case 2:
		c.writer.Bulk(args[1])
	default:
		c.refuse("ERR wrong number of arguments for 'ping' command")
	}
}

func (c *conn) echo(args [][]byte) { c.writer.Bulk(args[1]) }

func (c *conn) doQuit([][]byte) {
	c.quit = true
	c.writer.Status("OK")
}

func (c *conn) time([][]byte) {
	now := c.server.config.Now()
	c.writer.Array(2)
	c.writer.BulkString(strconv.FormatInt(now.Unix(), 10))
	c.writer.BulkString(strconv.Itoa(now.Nanosecond() / 1000))
}

func (c *conn) selectDB(args [][]byte) {
	switch n, err := strconv.ParseInt(string(args[1]), 10, 32); {
	case err != nil:
		c.refuse(textNotInt)
	case n != 0:
		c.refuse("ERR DB index is out of range")
	default:
		c.writer.Status("OK")
	}
}

func (c *conn) setReadOnly([][]byte) {
	c.readOnly = true
	c.writer.Status("OK")
}

func (c *conn) setReadWrite([][]byte) {
	c.readOnly = false
	c.writer.Status("OK")
}

func (c *conn) reset([][]byte) {
	c.readOnly = false
	c.setProtocol(2)
	c.setAuthed(c.server.config.Password == "")
	c.relabel(func(l *label) { l.name = "" })
	c.writer.Status("RESET")
}

func (c *conn) setProtocol(version int) {
	c.writer.SetProtocol(version)
	c.shown.resp3.Store(version == 3)
}

func (c *conn) setAuthed(on bool) {
	c.authed = on
	c.reader.Unauthenticated(!on)
}

// passes checks user and password in a time that depends on neither. Without a
// password the default user has any.
func (c *conn) passes(user, password []byte) bool {
	given := sha256.Sum256(password)
	same := subtle.ConstantTimeCompare(given[:], c.server.password[:])
	if c.server.config.Password == "" {
		same = 1
	}
	return same&subtle.ConstantTimeCompare(user, []byte("default")) == 1
}

func (c *conn) auth(args [][]byte) {
	user, password := []byte("default"), args[len(args)-1]
	switch {
	case len(args) > 3:
		c.refuse(textSyntax)
		return
	case len(args) == 3:
		user = args[1]
	case c.server.config.Password == "":
		c.refuse(textNoPass)
		return
	}
	if !c.passes(user, password) {
		c.refuse(textWrongPass)
		return
	}
	c.setAuthed(true)
	c.writer.Status("OK")
}

// hello is HELLO [version [AUTH user password] [SETNAME name]]. Nothing changes
// unless all of it is accepted.
func (c *conn) hello(args [][]byte) {
	version, name, authed := c.writer.Protocol(), []byte(nil), c.authed
	if len(args) > 1 {
		n, err := strconv.Atoi(string(args[1]))
		if err != nil {
			c.refuse("ERR Protocol version is not an integer or out of range")
			return
		}
		if version = n; version != 2 && version != 3 {
			c.refuse("NOPROTO unsupported protocol version")
			return
		}
	}
	for i := 2; i < len(args); i++ {
		switch more := len(args) - i - 1; {
		case strings.EqualFold(string(args[i]), "auth") && more >= 2:
			if authed = c.passes(args[i+1], args[i+2]); !authed {
				c.refuse(textWrongPass)
				return
			}
			i += 2
		case strings.EqualFold(string(args[i]), "setname") && more >= 1:
			if name = args[i+1]; !printable(name) {
				c.refuse(textName)
				return
			}
			i++
		default:
			c.refuse(fmt.Sprintf("ERR Syntax error in HELLO option '%.*s'", quoted, args[i]))
			return
		}
	}
	if !authed {
		c.refuse(textHelloAuth)
		return
	}
	c.setAuthed(true)
	if name != nil {
		c.relabel(func(l *label) { l.name = string(name) })
	}
	c.setProtocol(version)
	c.writeHello(version)
}

func (c *conn) writeHello(version int) {
	w := c.writer
	w.Map(7)
	w.BulkString("server")
	w.BulkString("redis")
	w.BulkString("version")
	w.BulkString(Version)
	w.BulkString("proto")
	w.Int(int64(version))
	w.BulkString("id")
	w.Int(c.id)
	w.BulkString("mode")
	w.BulkString(c.server.mode())
	w.BulkString("role")
	w.BulkString("master")
	w.BulkString("modules")
	w.Array(0)
}

// mode is what a node says it is: with redirects clients should follow the
// cluster protocol; without, one address is all they need.
func (s *Server) mode() string {
	if s.config.Redirect {
		return "cluster"
	}
	return "standalone"
}
