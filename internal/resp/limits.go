package resp

// Limits of a reader. The ones of Redis's own name are Redis's.
const (
	MaxArgs    = 4096     // arguments of a command, its name included: MSET of 1024 keys has 2049
	MaxCommand = 4 << 20  // bytes of a command's arguments together; more is skipped
	MaxInline  = 64 << 10 // bytes of an inline command (PROTO_INLINE_MAX_SIZE)

	// Beyond these a command is malformed rather than too large.
	MaxMultibulk = 1 << 20   // arguments announced
	MaxBulk      = 512 << 20 // bytes of one argument announced (proto-max-bulk-len)
	MaxSkip      = 1 << 30   // bytes skipped for one command, before the connection is given up

	// Before authentication, as Redis has them.
	UnauthArgs   = 10
	UnauthBulk   = 16 << 10
	UnauthInline = 16 << 10

	// What one batch may hold. A single command is handed out whatever its size.
	BatchCommands = 256
	BatchBytes    = 1 << 20 // as sent

	FlushBytes = 32 << 10 // what a Writer holds before its sink has it

	maxHeader  = 64       // bytes of a "*3" or "$5" line
	blockBytes = 16 << 10 // a pooled read buffer; also the least growth of a larger one
	minRoom    = 512      // less free space than this is not worth a read
)
