package cli

import (
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"
)

// arrange puts a command line into the order that urfave/cli understands: it
// takes flags only before arguments, and those of a command only after its
// name. Everything it cannot place is a usage error.
func arrange(app *ucli.App, args []string) ([]string, error) {
	if len(args) > 1 && args[1] == "help" {
		args = append(slices.Clip(args[:1]), append(slices.Clone(args[2:]), "--help")...)
	}
	words, flags, err := separate(allFlags(app), args[min(1, len(args)):])
	if err != nil {
		return nil, err
	}
	path, rest, err := find(app.Commands, words)
	if err != nil {
		return nil, err
	}
	out, own, name := []string{app.Name}, []string{}, ""
	if slices.ContainsFunc(flags, given.help) {
		rest = nil // else urfave/cli looks for help on the first argument
	}
	for _, f := range flags {
		switch {
		case f.help():
			own = append(own, "--help")
		case has(app.Flags, f.name):
			out = append(out, f.tokens...)
		case len(path) > 0 && has(path[len(path)-1].Flags, f.name):
			own = append(own, f.tokens...)
		default:
			for _, cmd := range path {
				name += " " + cmd.Name
			}
			return nil, usagef("flag %s does not belong to shardkv%s; `shardkv%s --help` lists its flags", f.tokens[0], name, name)
		}
	}
	for _, cmd := range path {
		out = append(out, cmd.Name)
	}
	out = append(out, own...)
	if len(path) > 0 {
		out = append(out, "--")
	}
	return append(out, rest...), nil
}

// given is one flag of a command line.
type given struct {
	name   string
	tokens []string // as typed: --name, or --name=value, or both as two
}

func (f given) help() bool { return f.name == "help" || f.name == "h" }

// separate tells flags from words. Flags of all commands are known by name, for
// a flag may stand before the command it belongs to.
func separate(takesValue map[string]bool, args []string) (words []string, flags []given, err error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(words, args[i+1:]...), flags, nil
		}
		if !looksLikeFlag(arg) {
			words = append(words, arg)
			continue
		}
		name, _, inOne := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		value, known := takesValue[name]
		switch {
		case !known:
			return nil, nil, usagef("unknown flag %s%s; -- ends the flags, for an argument that begins with -", clip(arg), meant(takesValue, name))
		case value && !inOne && i+1 == len(args):
			return nil, nil, usagef("flag %s needs a value", arg)
		case value && !inOne:
			flags = append(flags, given{name, []string{arg, args[i+1]}})
			i++
		default:
			flags = append(flags, given{name, []string{arg}})
		}
	}
	return words, flags, nil
}

// looksLikeFlag leaves -, negative numbers and everything without a dash alone.
func looksLikeFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && !('0' <= arg[1] && arg[1] <= '9' || arg[1] == '.')
}

// allFlags returns every flag name of the program, true if it takes a value. A
// name means the same in all commands.
func allFlags(app *ucli.App) map[string]bool {
	all := map[string]bool{"help": false, "h": false}
	add := func(flags []ucli.Flag) {
		for _, f := range flags {
			_, boolean := f.(*ucli.BoolFlag)
			for _, name := range f.Names() {
				all[name] = !boolean
			}
		}
	}
	add(app.Flags)
	each(app.Commands, func(cmd *ucli.Command) { add(cmd.Flags) })
	return all
}

func has(flags []ucli.Flag, name string) bool {
	return slices.ContainsFunc(flags, func(f ucli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// find follows words down the tree of commands; what is left are arguments.
func find(cmds []*ucli.Command, words []string) (path []*ucli.Command, rest []string, err error) {
	for len(cmds) > 0 && len(words) > 0 {
		at := slices.IndexFunc(cmds, func(cmd *ucli.Command) bool { return cmd.Name == words[0] })
		if at < 0 {
			within, names := "shardkv", map[string]bool{}
			for _, cmd := range path {
				within += " " + cmd.Name
			}
			for _, cmd := range cmds {
				names[cmd.Name] = true
			}
			return nil, nil, usagef("%s has no command %q%s; `%s --help` lists them", within, clip(words[0]), meant(names, words[0]), within)
		}
		path = append(path, cmds[at])
		words, cmds = words[1:], cmds[at].Subcommands
	}
	return path, words, nil
}

// meant suggests the known name that begins like name or shares its letters.
func meant(known map[string]bool, name string) string {
	letters := func(s string) string {
		b := []byte(strings.ToLower(s))
		slices.Sort(b)
		return string(b)
	}
	var best string
	for k := range known {
		near := len(name) > 1 && len(k) > 1 && (strings.HasPrefix(k, name) || strings.HasPrefix(name, k)) || letters(k) == letters(name)
		if near && (best == "" || k < best) {
			best = k
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// clip keeps a quoted argument readable in one line.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}
