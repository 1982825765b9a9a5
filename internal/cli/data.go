package cli

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

const (
	maxValue = 1_000_000
	maxKeys  = 1024

	// What a command may take beyond the node's own client.timeout.
	dataMargin  = 5 * time.Second
	dataDefault = 30 * time.Second // for a node that does not tell its timeout
)

func (c *command) get() *ucli.Command {
	return &ucli.Command{
		Name: "get", Usage: "print the value of a key; exit status 1 if there is none", ArgsUsage: "KEY",
		Flags: []ucli.Flag{&ucli.BoolFlag{Name: "raw", Usage: "print the value alone, without a newline after it"}},
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 1, 1); err != nil {
				return err
			}
			key := ctx.Args().First()
			raw, r, err := c.data(ctx, []string{key}, "GET", key)
			switch {
			case err != nil:
				return err
			case r.data == nil:
				return fmt.Errorf("there is no key %s", readable(clip(key)))
			case raw:
				return c.printJSON(valueJSON(key, r.data))
			case ctx.Bool("raw"):
				return c.print(string(r.data))
			}
			return c.print(string(r.data) + "\n")
		},
	}
}

// value is what get prints as JSON. Bytes that are not UTF-8 stand in base64.
type value struct {
	Key         string `json:"key"`
	Value       string `json:"value"`
	ValueBase64 string `json:"value_base64,omitempty"`
}

func valueJSON(key string, data []byte) value {
	v := value{Key: key, Value: string(data)}
	if !utf8.Valid(data) {
		v.ValueBase64 = base64.StdEncoding.EncodeToString(data)
	}
	return v
}

func (c *command) set() *ucli.Command {
	return c.write("set", "SET", "set a key to a value", func(r reply) (string, any) {
		return string(r.data), struct {
			Result string `json:"result"`
		}{string(r.data)}
	})
}

func (c *command) append() *ucli.Command {
	return c.write("append", "APPEND", "append to the value of a key and print its new length", func(r reply) (string, any) {
		return fmt.Sprint(r.num), struct {
			Length int64 `json:"length"`
		}{r.num}
	})
}

// write is a command with a key and a value.
func (c *command) write(name, redis, usage string, result func(reply) (string, any)) *ucli.Command {
	return &ucli.Command{
		Name: name, Usage: usage, ArgsUsage: "KEY VALUE",
		Flags: []ucli.Flag{&ucli.BoolFlag{Name: "stdin", Usage: "read VALUE, any bytes, from standard input instead"}},
		Action: func(ctx *ucli.Context) error {
			n := 2
			if ctx.Bool("stdin") {
				n = 1
			}
			if err := want(ctx, n, n); err != nil {
				return err
			}
			key, val := ctx.Args().First(), ctx.Args().Get(1)
			if ctx.Bool("stdin") {
				b, err := io.ReadAll(io.LimitReader(c.stdin, maxValue+1))
				if err != nil {
					return fmt.Errorf("standard input cannot be read: %w", err)
				}
				val = string(b)
			}
			if len(val) > maxValue {
				return usagef("the value has more than %s bytes", number(maxValue))
			}
			raw, r, err := c.data(ctx, []string{key}, redis, key, val)
			if err != nil {
				return err
			}
			text, v := result(r)
			if raw {
				return c.printJSON(v)
			}
			return c.print(text + "\n")
		},
	}
}

func (c *command) del() *ucli.Command {
	return &ucli.Command{
		Name: "del", Usage: "delete keys and print how many there were", ArgsUsage: "KEY…",
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 1, maxKeys); err != nil {
				return err
			}
			keys := ctx.Args().Slice()
			raw, r, err := c.data(ctx, keys, append([]string{"DEL"}, keys...)...)
			var e *redisError
			if len(keys) > 1 && errors.As(err, &e) && (e.kind() == "CROSSSLOT" || e.kind() == "MOVED") {
				// A node that redirects takes the keys of one slot only.
				r = reply{}
				for _, key := range keys {
					var one reply
					if raw, one, err = c.data(ctx, keys, "DEL", key); err != nil {
						return err
					}
					r.num += one.num
				}
			}
			switch {
			case err != nil:
				return err
			case raw:
				return c.printJSON(struct {
					Deleted int64 `json:"deleted"`
				}{r.num})
			}
			return c.print(fmt.Sprintf("%d\n", r.num))
		},
	}
}

// data sends a command to the client address of the node at --addr.
func (c *command) data(ctx *ucli.Context, keys []string, args ...string) (raw bool, r reply, err error) {
	for _, key := range keys {
		if _, err := keyOf(key); err != nil {
			return false, r, err
		}
	}
	if raw, err = asJSON(ctx); err != nil {
		return false, r, err
	}
	cl, err := newClient(ctx)
	if err != nil {
		return false, r, err
	}
	var self api.Node
	if _, err := cl.get(ctx.Context, "/v1/node", nil, answerTimeout, &self); err != nil {
		return false, r, err
	}
	within := dataDefault
	if self.ClientTimeout > 0 {
		within = time.Duration(self.ClientTimeout*float64(time.Second)) + dataMargin
	}
	r, err = ask(ctx.Context, self.Client, cl.password, within, args...)
	return raw, r, err
}
