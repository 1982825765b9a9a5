// Package plan draws the schedule of a chaos run from a seed: which fault when,
// on whom, how long, and which changes of the configuration beside them.
//
// It is pure: the same seed and shape give the same schedule. Who leads a group
// at the moment of a fault is found out by whoever carries it out; so are the
// limits of what may be broken at once.
package plan
