package hedge

import (
	"sync/atomic"
	"unsafe"
)

const (
	stripeBits = 5
	stripes    = 1 << stripeBits
)

// stripeOfGoroutine chooses a goroutine's own stripe by where its stack lies: goroutines that run at the same time have
// different stacks. Choosing at random costs more, and with few processors half of the writes would still find the line
// in another's cache.
func stripeOfGoroutine() uint64 {
	var onStack byte
	// Stacks are at least 2 KiB apart. The factor is 2⁶⁴ divided by the golden ratio (Fibonacci hashing: Knuth, The Art of
	// Computer Programming, volume 3, 6.4), which spreads stacks that lie in a row.
	place := uint64(uintptr(unsafe.Pointer(&onStack))) >> 11
	return place * 0x9E3779B97F4A7C15 >> (64 - stripeBits)
}

// counter is a sum that many goroutines add to without sharing a cache line.
type counter struct {
	stripes [stripes]struct {
		n atomic.Uint64
		_ [56]byte
	}
}

func (c *counter) add() { c.stripes[stripeOfGoroutine()].n.Add(1) }

func (c *counter) sum() uint64 {
	var sum uint64
	for i := range c.stripes {
		sum += c.stripes[i].n.Load()
	}
	return sum
}
