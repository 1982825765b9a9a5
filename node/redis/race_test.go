//go:build race

package redis

// slack is how much more memory things take under the race detector.
const slack = 2
