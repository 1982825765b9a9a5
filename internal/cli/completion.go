package cli

import (
	"fmt"
	"strings"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) completion() *ucli.Command {
	return &ucli.Command{
		Name:      "completion",
		Usage:     "print a completion script for bash, zsh or fish",
		ArgsUsage: "SHELL",
		Description: "bash: source <(shardkv completion bash)\n" +
			"zsh:  source <(shardkv completion zsh)\n" +
			"fish: shardkv completion fish | source",
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 1, 1); err != nil {
				return err
			}
			scripts := map[string]func(*ucli.App) string{"bash": bash, "zsh": zsh, "fish": fish}
			script, ok := scripts[ctx.Args().First()]
			if !ok {
				return usagef("%q is not a shell that can be completed: want bash, zsh or fish", clip(ctx.Args().First()))
			}
			return c.print(script(c.app()))
		},
	}
}

// place is where a command line has got to: a command, what may follow it and
// the flags it takes.
type place struct {
	path  string // "", "status", "group", "group join" …
	words []*ucli.Command
	flags []ucli.Flag
}

// places lists every point of the tree of commands.
func places(app *ucli.App) []place {
	out := []place{{"", app.Commands, nil}}
	var walk func(prefix string, cmds []*ucli.Command)
	walk = func(prefix string, cmds []*ucli.Command) {
		for _, cmd := range cmds {
			path := strings.TrimSpace(prefix + " " + cmd.Name)
			out = append(out, place{path, cmd.Subcommands, cmd.Flags})
			walk(path, cmd.Subcommands)
		}
	}
	walk("", app.Commands)
	return out
}

// dashed returns the names of flags as they are typed.
func dashed(flags []ucli.Flag) []string {
	var out []string
	for _, f := range flags {
		for _, name := range f.Names() {
			if len(name) == 1 {
				out = append(out, "-"+name)
			} else {
				out = append(out, "--"+name)
			}
		}
	}
	return out
}

// cases is the body of a shell's case statement: path -> words and flags.
func cases(app *ucli.App) string {
	var b strings.Builder
	for _, p := range places(app) {
		var words []string
		for _, cmd := range p.words {
			words = append(words, cmd.Name)
		}
		if p.path == "completion" {
			words = []string{"bash", "zsh", "fish"}
		}
		flags := append(dashed(p.flags), append(dashed(app.Flags), "--help")...)
		fmt.Fprintf(&b, "    %q) next=%q; flags=%q ;;\n", p.path, strings.Join(words, " "), strings.Join(flags, " "))
	}
	return b.String()
}

// valueFlags are the flags after which a word is a value, as a shell pattern.
func valueFlags(app *ucli.App) string {
	var names []string
	for _, p := range append(places(app), place{flags: app.Flags}) {
		for _, f := range p.flags {
			if _, boolean := f.(*ucli.BoolFlag); !boolean {
				names = append(names, dashed([]ucli.Flag{f})...)
			}
		}
	}
	return strings.Join(unique(names), "|")
}

func unique(names []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, name := range names {
		if !seen[name] {
			out = append(out, name)
		}
		seen[name] = true
	}
	return out
}

// follow is how bash and zsh find the command that is being typed. The names
// path and words are taken: both mean something to zsh.
func follow(app *ucli.App, from, array, current string) string {
	return fmt.Sprintf(`  local at="" word i next flags skip=0
  for ((i = %s; i < %s; i++)); do
    word="${%s[i]}"
    if ((skip)); then skip=0; continue; fi
    case "$word" in
      %s) skip=1; continue ;;
      -*) continue ;;
    esac
    case "${at:+$at }$word" in
      %s) at="${at:+$at }$word" ;;
    esac
  done
  next="" flags=""
  case "$at" in
%s  esac
`, from, current, array, valueFlags(app), paths(app), cases(app))
}

func paths(app *ucli.App) string {
	var out []string
	for _, p := range places(app)[1:] {
		out = append(out, fmt.Sprintf("%q", p.path))
	}
	return strings.Join(out, "|")
}

// files are the places where a file name is an argument.
const files = `"check"|"serve"|"dev"`

func bash(app *ucli.App) string {
	return "# bash completion for shardkv: source <(shardkv completion bash)\n_shardkv() {\n" +
		follow(app, "1", "COMP_WORDS", "COMP_CWORD") + `  local now="${COMP_WORDS[COMP_CWORD]}"
  if [[ "$now" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$now"))
  elif [[ -n "$next" ]]; then
    COMPREPLY=($(compgen -W "$next" -- "$now"))
  else
    case "$at" in
      ` + files + `) COMPREPLY=($(compgen -f -- "$now")) ;;
    esac
  fi
}
complete -F _shardkv shardkv
`
}

func zsh(app *ucli.App) string {
	return "#compdef shardkv\n# zsh completion for shardkv: source <(shardkv completion zsh)\n_shardkv() {\n  local -a typed=(\"${words[@]}\")\n" +
		follow(app, "2", "typed", "CURRENT") + `  if [[ "${typed[CURRENT]}" == -* ]]; then
    compadd -- ${=flags}
  elif [[ -n "$next" ]]; then
    compadd -- ${=next}
  else
    case "$at" in
      ` + files + `) _files ;;
    esac
  fi
}
compdef _shardkv shardkv
`
}

func fish(app *ucli.App) string {
	var b strings.Builder
	b.WriteString("# fish completion for shardkv: shardkv completion fish | source\ncomplete -c shardkv -f\n")
	for _, p := range places(app) {
		at := "__fish_use_subcommand"
		if p.path != "" {
			at = "__fish_seen_subcommand_from " + strings.ReplaceAll(p.path, " ", "; and __fish_seen_subcommand_from ")
		}
		for _, cmd := range p.words {
			fmt.Fprintf(&b, "complete -c shardkv -n '%s' -a %s -d '%s'\n", at, cmd.Name, quoted(cmd.Usage))
		}
		flags := p.flags
		if p.path == "" {
			flags, at = app.Flags, "true"
		}
		for _, f := range flags {
			line := fmt.Sprintf("complete -c shardkv -n '%s'", at)
			for _, name := range f.Names() {
				if len(name) == 1 {
					line += " -s " + name
				} else {
					line += " -l " + name
				}
			}
			if _, boolean := f.(*ucli.BoolFlag); !boolean {
				line += " -r"
			}
			if doc, ok := f.(ucli.DocGenerationFlag); ok {
				line += " -d '" + quoted(strings.ReplaceAll(doc.GetUsage(), "`", "")) + "'"
			}
			b.WriteString(line + "\n")
		}
	}
	b.WriteString("complete -c shardkv -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n")
	b.WriteString("complete -c shardkv -n '__fish_seen_subcommand_from check' -F\n")
	return b.String()
}

func quoted(s string) string { return strings.ReplaceAll(s, "'", `\'`) }
