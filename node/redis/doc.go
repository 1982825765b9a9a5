// Package redis serves the Redis protocol on a node's client port: connections,
// pipelines, the commands that a node answers by itself (PING, HELLO, COMMAND,
// CLIENT, CLUSTER, INFO …), and SCAN. Commands on data go to a Backend.
//
// Invariants: replies leave in the order of their commands; a protocol error is
// answered once and ends its connection, never another one; nothing a client
// announces takes memory before its bytes are there; a client that does not
// read is cut off at OutputLimit and WriteTimeout; replies of all
// clients together stay within OutputTotal; an idle connection holds no
// buffer; before AUTH only AUTH, HELLO, QUIT and RESET are executed.
//
// It must not know how a command finds its shard, what a shard's state is, or
// how nodes talk to each other: that is the Backend's. It gives no command a
// meaning that internal/kv gives it.
package redis
