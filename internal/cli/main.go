package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	ucli "github.com/urfave/cli/v2"
)

// Exit statuses.
const (
	exitDone     = 0
	exitFailed   = 1 // the cluster said no or could not be reached
	exitUsage    = 2
	exitDegraded = 3 // status --check only
)

// usageError is a command line, or a configuration file, that cannot work.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// errDegraded ends status --check with its exit status; the problems are printed.
var errDegraded = errors.New("the cluster is degraded")

// Main runs one command line, args[0] being the program's name, and returns the
// exit status.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &command{stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now, nodes: realNodes{}}
	return c.main(args)
}

// command is what one run of the program works with.
type command struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time
	nodes          nodes
}

func (c *command) main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	app := c.app()
	args, err := arrange(app, args)
	if err == nil {
		err = app.RunContext(ctx, args)
	}
	return c.report(err)
}

// report says what went wrong, in one line, and returns the exit status.
func (c *command) report(err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errDegraded):
		return exitDegraded
	}
	status := exitFailed
	if u := new(usageError); errors.As(err, &u) {
		status = exitUsage
	}
	fmt.Fprintln(c.stderr, "shardkv: "+oneLine(err.Error()))
	return status
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// app is the tree of commands.
func (c *command) app() *ucli.App {
	app := &ucli.App{
		Name:            "shardkv",
		Usage:           "a sharded, linearizable key-value store that speaks the Redis protocol",
		Writer:          c.stdout,
		ErrWriter:       c.stderr,
		HideHelpCommand: true,
		HideVersion:     true,
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "addr", Usage: "http address `HOST:PORT` of any node (environment: SHARDKV_ADDR)", Value: defaultAddr},
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "print `FORMAT`: table or json", Value: "table"},
		},
		Commands: []*ucli.Command{
			c.serve(), c.dev(), c.status(), c.members(), c.groups(), c.shards(), c.migrations(), c.config(), c.locate(),
			c.group(), c.verify(), c.get(), c.set(), c.append(), c.del(), c.node(), c.check(), c.completion(), c.version(),
		},
		Action:         func(*ucli.Context) error { return usagef("no command; `shardkv --help` lists them") },
		OnUsageError:   func(_ *ucli.Context, err error, _ bool) error { return usagef("%v", err) },
		ExitErrHandler: func(*ucli.Context, error) {},
	}
	each(app.Commands, func(cmd *ucli.Command) {
		cmd.HideHelpCommand = true // else `get help` would not read a key
		cmd.OnUsageError = app.OnUsageError
		for _, f := range cmd.Flags {
			if b, ok := f.(*ucli.BoolFlag); ok {
				b.DisableDefaultText = true
			}
		}
		if cmd.Action == nil {
			name := cmd.Name
			cmd.Action = func(*ucli.Context) error {
				return usagef("%s needs one of its commands; `shardkv %s --help` lists them", name, name)
			}
		}
	})
	return app
}

func each(cmds []*ucli.Command, visit func(*ucli.Command)) {
	for _, cmd := range cmds {
		visit(cmd)
		each(cmd.Subcommands, visit)
	}
}

// want checks the number of arguments; most < 0 means any number.
func want(ctx *ucli.Context, least, most int) error {
	n := ctx.NArg()
	if n >= least && (most < 0 || n <= most) {
		return nil
	}
	takes := fmt.Sprint(least)
	switch {
	case least == 0 && most == 0:
		takes = "no argument"
	case most < 0:
		takes = fmt.Sprintf("%d or more arguments", least)
	case least != most && most == 1:
		takes = "at most one argument"
	case least != most:
		takes = fmt.Sprintf("%d to %d arguments", least, most)
	case least == 1:
		takes = "one argument"
	default:
		takes += " arguments"
	}
	name := strings.TrimPrefix(ctx.Command.HelpName, "shardkv ")
	return usagef("%s takes %s, got %d; usage: shardkv %s", name, takes, n, strings.TrimSpace(name+" "+ctx.Command.ArgsUsage))
}

// asJSON reads the -o flag.
func asJSON(ctx *ucli.Context) (bool, error) {
	switch o := ctx.String("output"); o {
	case "json":
		return true, nil
	case "table":
		return false, nil
	default:
		return false, usagef("-o %s: want table or json", o)
	}
}
