package redis

import (
	"slices"
	"strings"
)

// command is what COMMAND says of a command, and how to run it.
type command struct {
	name              string
	arity             int    // name included; negative = at least
	flags             string // as COMMAND names them, separated by blanks
	first, last, step int    // positions of the keys; 0 = none
	group, since      string
	summary           string

	run    func(c *conn, args [][]byte) // nil: a command on data, the Backend's
	noAuth bool                         // allowed before AUTH
	subs   []*command                   // by name; args still hold both names
}

// table is every command in order of name, as Redis 7.2 describes them. It is
// filled at start, since COMMAND itself, which is in it, reads it.
var table []*command

var stringCommands = []*command{
	{"append", 3, "write denyoom fast", 1, 1, 1, "string", "2.0.0", "Appends a string to the value of a key.", nil, false, nil},
	{"decr", 2, "write denyoom fast", 1, 1, 1, "string", "1.0.0", "Decrements the integer value of a key by one.", nil, false, nil},
	{"decrby", 3, "write denyoom fast", 1, 1, 1, "string", "1.0.0", "Decrements a number from the integer value of a key.", nil, false, nil},
	{"get", 2, "readonly fast", 1, 1, 1, "string", "1.0.0", "Returns the string value of a key.", nil, false, nil},
	{"getdel", 2, "write fast", 1, 1, 1, "string", "6.2.0", "Returns the string value of a key after deleting the key.", nil, false, nil},
	{"getex", -2, "write fast", 1, 1, 1, "string", "6.2.0", "Returns the string value of a key after setting its expiration time.", nil, false, nil},
	{"getrange", 4, "readonly", 1, 1, 1, "string", "2.4.0", "Returns a substring of the string stored at a key.", nil, false, nil},
	{"getset", 3, "write denyoom fast", 1, 1, 1, "string", "1.0.0", "Returns the previous string value of a key after setting it to a new value.", nil, false, nil},
	{"incr", 2, "write denyoom fast", 1, 1, 1, "string", "1.0.0", "Increments the integer value of a key by one.", nil, false, nil},
	{"incrby", 3, "write denyoom fast", 1, 1, 1, "string", "1.0.0", "Increments the integer value of a key by a number.", nil, false, nil},
	{"incrbyfloat", 3, "write denyoom fast", 1, 1, 1, "string", "2.6.0", "Increments the floating point value of a key by a number.", nil, false, nil},
	{"mget", -2, "readonly fast", 1, -1, 1, "string", "1.0.0", "Returns the string values of one or more keys.", nil, false, nil},
	{"mset", -3, "write denyoom", 1, -1, 2, "string", "1.0.1", "Sets the string values of one or more keys of one shard.", nil, false, nil},
	{"psetex", 4, "write denyoom", 1, 1, 1, "string", "2.6.0", "Sets the string value and the expiration time in milliseconds of a key.", nil, false, nil},
	{"set", -3, "write denyoom", 1, 1, 1, "string", "1.0.0", "Sets the string value of a key.", nil, false, nil},
	{"setex", 4, "write denyoom", 1, 1, 1, "string", "2.0.0", "Sets the string value and the expiration time of a key.", nil, false, nil},
	{"setnx", 3, "write denyoom fast", 1, 1, 1, "string", "1.0.0", "Sets the string value of a key only when the key does not exist.", nil, false, nil},
	{"setrange", 4, "write denyoom", 1, 1, 1, "string", "2.2.0", "Overwrites a part of a string value with another by an offset.", nil, false, nil},
	{"strlen", 2, "readonly fast", 1, 1, 1, "string", "2.2.0", "Returns the length of a string value.", nil, false, nil},
}

var keyCommands = []*command{
	{"del", -2, "write", 1, -1, 1, "generic", "1.0.0", "Deletes one or more keys.", nil, false, nil},
	{"exists", -2, "readonly fast", 1, -1, 1, "generic", "1.0.0", "Determines whether one or more keys exist.", nil, false, nil},
	{"expire", -3, "write fast", 1, 1, 1, "generic", "1.0.0", "Sets the expiration time of a key in seconds.", nil, false, nil},
	{"expireat", -3, "write fast", 1, 1, 1, "generic", "1.2.0", "Sets the expiration time of a key to a Unix timestamp.", nil, false, nil},
	{"expiretime", 2, "readonly fast", 1, 1, 1, "generic", "7.0.0", "Returns the expiration time of a key as a Unix timestamp.", nil, false, nil},
	{"persist", 2, "write fast", 1, 1, 1, "generic", "2.2.0", "Removes the expiration time of a key.", nil, false, nil},
	{"pexpire", -3, "write fast", 1, 1, 1, "generic", "2.6.0", "Sets the expiration time of a key in milliseconds.", nil, false, nil},
	{"pexpireat", -3, "write fast", 1, 1, 1, "generic", "2.6.0", "Sets the expiration time of a key to a Unix timestamp in milliseconds.", nil, false, nil},
	{"pexpiretime", 2, "readonly fast", 1, 1, 1, "generic", "7.0.0", "Returns the expiration time of a key as a Unix timestamp in milliseconds.", nil, false, nil},
	{"pttl", 2, "readonly fast", 1, 1, 1, "generic", "2.6.0", "Returns the time to live of a key in milliseconds.", nil, false, nil},
	{"ttl", 2, "readonly fast", 1, 1, 1, "generic", "1.0.0", "Returns the time to live of a key in seconds.", nil, false, nil},
	{"type", 2, "readonly fast", 1, 1, 1, "generic", "1.0.0", "Determines the type of the value stored at a key.", nil, false, nil},
	{"unlink", -2, "write fast", 1, -1, 1, "generic", "4.0.0", "Deletes one or more keys.", nil, false, nil},
}

const (
	always   = "loading stale fast"
	preAuth  = "noscript loading stale fast no_auth allow_busy"
	ofServer = "loading stale"
)

var serverCommands = []*command{
	{"auth", -2, preAuth, 0, 0, 0, "connection", "1.0.0", "Authenticates the connection.", (*conn).auth, true, nil},
	{"client", -2, "", 0, 0, 0, "connection", "2.4.0", "A container for client connection commands.", (*conn).unreachable, false, []*command{
		{"getname", 2, "noscript loading stale", 0, 0, 0, "connection", "2.6.9", "Returns the name of the connection.", (*conn).clientGetName, false, nil},
		{"id", 2, "noscript loading stale", 0, 0, 0, "connection", "5.0.0", "Returns the unique client ID of the connection.", (*conn).clientID, false, nil},
		{"info", 2, "noscript loading stale", 0, 0, 0, "connection", "6.2.0", "Returns information about the connection.", (*conn).clientInfo, false, nil},
		{"list", -2, "admin noscript loading stale", 0, 0, 0, "connection", "2.4.0", "Lists open connections.", (*conn).clientList, false, nil},
		{"no-evict", 3, "admin noscript loading stale", 0, 0, 0, "connection", "7.0.0", "Accepted and without effect: nothing is evicted.", (*conn).clientSwitch, false, nil},
		{"no-touch", 3, "noscript loading stale", 0, 0, 0, "connection", "7.2.0", "Accepted and without effect: no access times are kept.", (*conn).clientSwitch, false, nil},
		{"setinfo", 4, "noscript loading stale", 0, 0, 0, "connection", "7.2.0", "Sets information of the client library.", (*conn).clientSetInfo, false, nil},
		{"setname", 3, "noscript loading stale", 0, 0, 0, "connection", "2.6.9", "Sets the connection name.", (*conn).clientSetName, false, nil},
	}},
	{"cluster", -2, "", 0, 0, 0, "cluster", "3.0.0", "A container for cluster commands.", (*conn).unreachable, false, []*command{
		{"info", 2, ofServer, 0, 0, 0, "cluster", "3.0.0", "Returns information about the state of the cluster.", (*conn).clusterInfo, false, nil},
		{"keyslot", 3, ofServer, 0, 0, 0, "cluster", "3.0.0", "Returns the hash slot of a key.", (*conn).clusterKeySlot, false, nil},
		{"myid", 2, ofServer, 0, 0, 0, "cluster", "3.0.0", "Returns the ID of this node.", (*conn).clusterMyID, false, nil},
		{"nodes", 2, ofServer, 0, 0, 0, "cluster", "3.0.0", "Returns the nodes and the slots they lead.", (*conn).clusterNodes, false, nil},
		{"shards", 2, ofServer, 0, 0, 0, "cluster", "7.0.0", "Returns the mapping of slots to groups.", (*conn).clusterShards, false, nil},
		{"slots", 2, ofServer, 0, 0, 0, "cluster", "3.0.0", "Returns the mapping of slots to nodes.", (*conn).clusterSlots, false, nil},
	}},
	{"command", -1, ofServer, 0, 0, 0, "server", "2.8.13", "Returns detailed information about all commands.", (*conn).commandAll, false, []*command{
		{"count", 2, ofServer, 0, 0, 0, "server", "2.8.13", "Returns a count of commands.", (*conn).commandCount, false, nil},
		{"docs", -2, ofServer, 0, 0, 0, "server", "7.0.0", "Returns documentation about commands.", (*conn).commandDocs, false, nil},
		{"info", -2, ofServer, 0, 0, 0, "server", "2.8.13", "Returns information about some or all commands.", (*conn).commandInfo, false, nil},
		{"list", -2, ofServer, 0, 0, 0, "server", "7.0.0", "Returns a list of command names.", (*conn).commandList, false, nil},
	}},
	{"config", -2, "", 0, 0, 0, "server", "2.0.0", "A container for server configuration commands.", (*conn).unreachable, false, []*command{
		{"get", -3, "admin noscript loading stale", 0, 0, 0, "server", "2.0.0", "Returns the effective values of configuration parameters.", (*conn).configGet, false, nil},
	}},
	{"dbsize", 1, "readonly fast", 0, 0, 0, "server", "1.0.0", "Returns the number of keys in the cluster, by walking them.", (*conn).dbSize, false, nil},
	{"echo", 2, always, 0, 0, 0, "connection", "1.0.0", "Returns the given string.", (*conn).echo, false, nil},
	{"hello", -1, preAuth, 0, 0, 0, "connection", "6.0.0", "Handshakes with the server.", (*conn).hello, true, nil},
	{"info", -1, ofServer, 0, 0, 0, "server", "1.0.0", "Returns information and statistics about the server.", (*conn).info, false, nil},
	{"ping", -1, "fast", 0, 0, 0, "connection", "1.0.0", "Returns the server's liveliness response.", (*conn).ping, false, nil},
	{"quit", -1, preAuth, 0, 0, 0, "connection", "1.0.0", "Closes the connection.", (*conn).doQuit, true, nil},
	{"readonly", 1, always, 0, 0, 0, "cluster", "3.0.0", "Enables reads from replicas on the connection; they stay linearizable.", (*conn).setReadOnly, false, nil},
	{"readwrite", 1, always, 0, 0, 0, "cluster", "3.0.0", "Ends READONLY.", (*conn).setReadWrite, false, nil},
	{"reset", 1, preAuth, 0, 0, 0, "connection", "6.2.0", "Resets the connection.", (*conn).reset, true, nil},
	{"scan", -2, "readonly", 0, 0, 0, "generic", "2.8.0", "Iterates over the key names in the cluster.", (*conn).scan, false, nil},
	{"select", 2, always, 0, 0, 0, "connection", "1.0.0", "Changes the selected database; there is only 0.", (*conn).selectDB, false, nil},
	{"time", 1, always, 0, 0, 0, "server", "2.6.0", "Returns the server time.", (*conn).time, false, nil},
}

// maxName is at least the length of the longest command name.
const maxName = 16

// names finds a command of the table.
var names = make(map[string]*command)

func init() {
	table = slices.Concat(stringCommands, keyCommands, serverCommands)
	slices.SortFunc(table, func(a, b *command) int { return strings.Compare(a.name, b.name) })
	for _, cmd := range table {
		names[cmd.name] = cmd
	}
}

// lookup finds a command by its name in any case; nil if there is none.
func lookup(name []byte) *command {
	var low [maxName]byte
	if len(name) > maxName {
		return nil
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	return names[string(low[:len(name)])]
}

// sub finds a subcommand by its name in any case.
func (m *command) sub(name []byte) *command {
	for _, s := range m.subs {
		if strings.EqualFold(s.name, string(name)) {
			return s
		}
	}
	return nil
}

// takes says whether the command may have n arguments, its name included.
func (m *command) takes(n int) bool {
	if m.arity < 0 {
		return n >= -m.arity
	}
	return n == m.arity
}
