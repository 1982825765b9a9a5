package redis

import (
	"fmt"
	"strings"
)

func (c *conn) commandCount([][]byte) { c.writer.Int(int64(len(table))) }

func (c *conn) commandAll([][]byte) {
	c.writer.Array(len(table))
	for _, cmd := range table {
		c.writeCommand(cmd, "")
	}
}

func (c *conn) commandInfo(args [][]byte) {
	if len(args) == 2 {
		c.commandAll(args)
		return
	}
	c.writer.Array(len(args) - 2)
	for _, name := range args[2:] {
		container, sub, isSub := strings.Cut(string(name), "|")
		cmd, prefix := lookup([]byte(container)), ""
		if cmd != nil && isSub {
			cmd, prefix = cmd.sub([]byte(sub)), cmd.name+"|"
		}
		if cmd == nil {
			c.writer.NullArray()
			continue
		}
		c.writeCommand(cmd, prefix)
	}
}

// writeCommand writes the ten elements of a command in COMMAND's reply: name,
// arity, flags, keys, ACL categories, tips, key specifications, subcommands.
func (c *conn) writeCommand(cmd *command, prefix string) {
	w := c.writer
	flags := strings.Fields(cmd.flags)
	w.Array(10)
	w.BulkString(prefix + cmd.name)
	w.Int(int64(cmd.arity))
	w.Set(len(flags))
	for _, f := range flags {
		w.Status(f)
	}
	w.Int(int64(cmd.first))
	w.Int(int64(cmd.last))
	w.Int(int64(cmd.step))
	categories := cmd.categories()
	w.Set(len(categories))
	for _, a := range categories {
		w.Status(a)
	}
	w.Array(0)
	c.writeKeySpec(cmd)
	w.Array(len(cmd.subs))
	for _, s := range cmd.subs {
		c.writeCommand(s, cmd.name+"|")
	}
}

func (c *conn) writeKeySpec(cmd *command) {
	w := c.writer
	if cmd.first == 0 {
		w.Array(0)
		return
	}
	access := "RO"
	if strings.HasPrefix(cmd.flags, "write") {
		access = "RW"
	}
	last := cmd.last
	if last > 0 { // counted from the first key
		last -= cmd.first
	}
	w.Array(1)
	w.Map(3)
	w.BulkString("flags")
	w.Set(1)
	w.Status(access)
	w.BulkString("begin_search")
	w.Map(2)
	w.BulkString("type")
	w.BulkString("index")
	w.BulkString("spec")
	w.Map(1)
	w.BulkString("index")
	w.Int(int64(cmd.first))
	w.BulkString("find_keys")
	w.Map(2)
	w.BulkString("type")
	w.BulkString("range")
	w.BulkString("spec")
	w.Map(3)
	w.BulkString("lastkey")
	w.Int(int64(last))
	w.BulkString("keystep")
	w.Int(int64(cmd.step))
	w.BulkString("limit")
	w.Int(0)
}

// categories are the ACL categories that follow from flags and group.
func (m *command) categories() []string {
	var all []string
	for _, f := range strings.Fields(m.flags) {
		switch f {
		case "write":
			all = append(all, "@write")
		case "readonly":
			all = append(all, "@read")
		case "admin":
			all = append(all, "@admin", "@dangerous")
		}
	}
	switch m.group {
	case "generic":
		all = append(all, "@keyspace")
	case "string", "connection":
		all = append(all, "@"+m.group)
	}
	if strings.Contains(m.flags, "fast") {
		return append(all, "@fast")
	}
	return append(all, "@slow")
}

func (c *conn) commandDocs(args [][]byte) {
	var asked []*command
	for _, name := range args[2:] {
		if cmd := lookup(name); cmd != nil {
			asked = append(asked, cmd)
		}
	}
	if len(args) == 2 {
		asked = table
	}
	c.writer.Map(len(asked))
	for _, cmd := range asked {
		c.writeDocs(cmd, "")
	}
}

func (c *conn) writeDocs(cmd *command, prefix string) {
	w := c.writer
	w.BulkString(prefix + cmd.name)
	fields := 3
	if len(cmd.subs) > 0 {
		fields++
	}
	w.Map(fields)
	w.BulkString("summary")
	w.BulkString(cmd.summary)
	w.BulkString("since")
	w.BulkString(cmd.since)
	w.BulkString("group")
	w.BulkString(cmd.group)
	if len(cmd.subs) > 0 {
		w.BulkString("subcommands")
		w.Map(len(cmd.subs))
		for _, s := range cmd.subs {
			c.writeDocs(s, cmd.name+"|")
		}
	}
}

// commandList is COMMAND LIST [FILTERBY PATTERN pattern | ACLCAT category |
// MODULE name].
func (c *conn) commandList(args [][]byte) {
	keep := func(*command) bool { return true }
	if len(args) > 2 {
		if len(args) != 5 || !strings.EqualFold(string(args[2]), "filterby") {
			c.refuse(textSyntax)
			return
		}
		switch value := args[4]; strings.ToLower(string(args[3])) {
		case "pattern":
			keep = func(cmd *command) bool { return match(value, []byte(cmd.name), true) }
		case "aclcat":
			keep = func(cmd *command) bool {
				return strings.Contains(" "+strings.Join(cmd.categories(), " ")+" ", fmt.Sprintf(" @%s ", strings.ToLower(string(value))))
			}
		case "module":
			keep = func(*command) bool { return false }
		default:
			c.refuse(textSyntax)
			return
		}
	}
	var found []string
	for _, cmd := range table {
		if keep(cmd) {
			found = append(found, cmd.name)
		}
	}
	c.writer.Array(len(found))
	for _, name := range found {
		c.writer.BulkString(name)
	}
}
