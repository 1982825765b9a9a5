// Package failpoint names the moments before and after each durable step, at
// which a test build can end or hold up the process. The fault harness
// (internal/chaos, TestFailpoints) walks through all of them.
//
//	failpoint.Hit("consensus.append.before")
//
// In a normal build Hit is an empty function that the compiler removes. With
// the build tag failpoint it obeys the environment:
//
//	SHARDKV_FAILPOINTS="consensus.append.after=kill@3; group.flip.committed=delay:200ms@2"
//	SHARDKV_FAILPOINTS=@FILE
//
// kill is SIGKILL to the own process, delay holds up the goroutine that came by;
// @N names the N-th passage since the point was armed, @1 if left out. Each acts
// once. A file holds the same text, is read again whenever it has changed, and
// may be missing or empty; what it says replaces what was armed before.
// Everything after # up to the end of a line is ignored, so a line that differs
// in nothing else arms anew.
//
// Standard error is told when a point is passed for the first time ("failpoint:
// passed NAME") and, before it acts, when one fires ("failpoint: fired NAME=kill@3").
// A text that cannot be read, and a name that is not listed, end the process.
//
// Points lists every name, where in the source it stands, and what has to happen
// for it to be passed; a test compares the list with the source.
//
// Why not pingcap/failpoint or etcd's gofail: both keep the points in comments or
// marker calls that a tool rewrites before the build and restores after it. That
// is a second version of each source file, a tool to install, and a tree that is
// dirty while a test build runs; two small files and a build tag need neither.
//
// It must not know what the points mean.
package failpoint
