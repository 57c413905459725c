package uuidv7

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// New returns an ID for a time. Its order is exact to 250 ns; 62 bits are random. It is safe for concurrent use.
func New(now time.Time) string { return format(stamp(now)) }

// Write writes an ID for a time into id, as [New] makes it. It is for callers that have room for the text already.
func Write(id *[36]byte, now time.Time) { write(id, stamp(now)) }

// last is the stamp of the latest ID that Next returned.
var last atomic.Uint64

// Next returns an ID that is greater than every ID that Next returned in this process before. It is safe for concurrent use.
func Next() string {
	for {
		before := last.Load()
		at := max(stamp(time.Now()), before+1)
		if last.CompareAndSwap(before, at) {
			return format(at)
		}
	}
}

// stamp is a time as an ID stores it: 48 bits of milliseconds and 12 bits of 1/4096 ms (RFC 9562, section 6.2, method 3).
func stamp(t time.Time) uint64 {
	ns := t.UnixNano()
	return uint64(ns/1e6)<<12 | uint64(ns%1e6*4096/1e6)
}

func format(at uint64) string {
	var id [36]byte
	write(&id, at)
	return string(id[:])
}

func write(id *[36]byte, at uint64) {
	high := at>>12<<16 | at&0x0fff | 0x7000
	low := rand.Uint64()>>2 | 1<<63
	a, b, c := digits(uint32(high>>32)), digits(uint32(high)), digits(uint32(low>>32))
	binary.BigEndian.PutUint64(id[0:], a)
	binary.BigEndian.PutUint32(id[9:], uint32(b>>32))
	binary.BigEndian.PutUint32(id[14:], uint32(b))
	binary.BigEndian.PutUint32(id[19:], uint32(c>>32))
	binary.BigEndian.PutUint32(id[24:], uint32(c))
	binary.BigEndian.PutUint64(id[28:], digits(uint32(low)))
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
}

// digits returns the eight hexadecimal digits of n as ASCII, the first in the highest byte. Each nibble is spread to a byte
// of its own; nibbles above 9 are moved from behind '9' to 'a'.
func digits(n uint32) uint64 {
	x := uint64(n)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	above := (x + 0x0606060606060606) >> 4 & 0x0101010101010101
	return x + 0x3030303030303030 + above*('a'-'9'-1)
}
