// Package striped spreads what many goroutines write over several cache lines, so that counting on a hot path costs the same
// on many processors as on one.
package striped
