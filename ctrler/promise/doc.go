// Package promise forms the ctrler without split brain.
package promise
