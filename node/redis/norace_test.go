//go:build !race

package redis

const slack = 1
