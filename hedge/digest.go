package hedge

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/striped"
)

// Buckets are cut as in an HDR histogram (G. Tene): each power of two of nanoseconds is divided into 16 equal parts.
// With the middle of its bucket for an answer, a latency is off by at most half a part, 1/32 of the lower end: 3.1 %.
const (
	partBits = 4
	parts    = 1 << partBits
	lowest   = 13 // 2¹³ ns are 8.2 µs
	highest  = 38 // up to 2³⁹ ns, 9.2 min
	buckets  = (highest - lowest + 1) * parts
)

const (
	// windowSize latencies are counted, then the window becomes the old one: answers rest on the latest 1,024 to 2,048.
	windowSize = 1024
	// freshSamples is the number of latencies up to which every answer is computed again, so that no latency is missing.
	freshSamples = 256
	// answerMoves is how many moves of latencies from stripes to the histogram an answer outlives: about 100 latencies.
	answerMoves = 4
	// pendingSize fills up a stripe to a cache line.
	pendingSize = 26
)

// Digest is a histogram of one key's latest 1,024 to 2,048 latencies. Latencies from 10 µs to 5 min are exact within 5 %;
// shorter and longer ones count as about 8 µs and 9 min. The zero value is ready for use and allocates its memory, about
// 4 KiB, at the first latency. Digest is safe for concurrent use and must not be copied.
type Digest struct {
	data   atomic.Pointer[digest]
	serial bool // only one stripe is used
}

// NewSerialDigest makes a digest that answers the same after the same latencies, whichever goroutines add them. It suits
// simulations, where one goroutine runs at a time.
func NewSerialDigest() *Digest { return &Digest{serial: true} }

// digest collects latencies in stripes, where goroutines rarely contend, and moves them to the histogram 26 at a time.
type digest struct {
	stripes [striped.Stripes]stripe
	moves   atomic.Uint64 // from stripes to the histogram
	answer  atomic.Pointer[answer]

	mu    sync.Mutex // taken after a stripe's
	fresh histogram
	old   histogram
}

type stripe struct {
	mu      sync.Mutex
	n       uint32
	pending [pendingSize]uint16 // buckets
}

type histogram struct {
	counts [buckets]uint16
	total  int
}

// answer is the last computed value of a quantile.
type answer struct {
	q       float64
	latency time.Duration
	samples int
	moves   uint64
}

// Add adds a latency. Add only latencies of attempts that succeeded.
func (d *Digest) Add(latency time.Duration) {
	data := d.data.Load()
	if data == nil {
		d.data.CompareAndSwap(nil, &digest{})
		data = d.data.Load()
	}
	i := uint64(0)
	if !d.serial {
		i = striped.Own()
	}
	for !data.stripes[i%striped.Stripes].mu.TryLock() {
		i++ // use another stripe instead of waiting for this one
	}
	s := &data.stripes[i%striped.Stripes]
	s.pending[s.n] = bucketOf(latency)
	s.n++
	if s.n == pendingSize {
		data.move(s)
	}
	s.mu.Unlock()
}

// Quantile returns the latency that the share q of the known ones does not exceed (the nearest rank), and how many are
// known; 0 and 0 if none are. q outside 0 to 1 is taken as the nearer end, NaN as 1. With more than 256 latencies an
// answer may lack the latest few hundred.
func (d *Digest) Quantile(q float64) (latency time.Duration, samples int) {
	data := d.data.Load()
	if data == nil {
		return 0, 0
	}
	a := data.answer.Load()
	if a == nil || a.q != q || a.samples <= freshSamples || data.moves.Load()-a.moves >= answerMoves {
		a = data.compute(q)
		data.answer.Store(a)
	}
	return a.latency, a.samples
}

// move counts what is pending at a stripe, whose mutex the caller holds.
func (d *digest) move(s *stripe) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range s.pending[:s.n] {
		d.fresh.counts[b]++
		d.fresh.total++
		if d.fresh.total == windowSize {
			d.old, d.fresh = d.fresh, histogram{}
		}
	}
	s.n = 0
	d.moves.Add(1)
}

func (d *digest) compute(q float64) *answer {
	for i := range d.stripes {
		s := &d.stripes[i]
		s.mu.Lock()
		if s.n > 0 {
			d.move(s)
		}
		s.mu.Unlock()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := &answer{q: q, samples: d.fresh.total + d.old.total, moves: d.moves.Load()}
	rank := rankOf(q, a.samples)
	for b := range buckets {
		rank -= int(d.fresh.counts[b]) + int(d.old.counts[b])
		if rank <= 0 {
			a.latency = middleOf(b)
			break
		}
	}
	return a
}

// rankOf is the position, from 1, of the quantile among n sorted samples.
func rankOf(q float64, n int) int {
	if !(q < 1) {
		return n
	}
	return max(int(math.Ceil(q*float64(n))), 1)
}

func bucketOf(latency time.Duration) uint16 {
	ns := min(max(uint64(max(latency, 0)), 1<<lowest), 1<<(highest+1)-1)
	power := bits.Len64(ns) - 1
	part := ns >> (power - partBits) & (parts - 1)
	return uint16((power-lowest)*parts) + uint16(part)
}

func middleOf(bucket int) time.Duration {
	width := int64(1) << (lowest + bucket/parts - partBits)
	return time.Duration((parts+int64(bucket%parts))*width + width/2)
}
