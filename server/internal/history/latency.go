package history

import (
	"math"
	"time"
)

// A bucket is a tenth wider than the one before, so that a quantile is off by at most a twentieth. The buckets reach from a
// millisecond to two days; what is beyond is counted in the first or the last one.
const (
	buckets = 200
	growth  = 1.1
	lowest  = time.Millisecond
)

// latencies is a histogram.
type latencies struct {
	count   uint64
	buckets [buckets]uint32
}

func (l *latencies) add(d time.Duration) {
	i := 0
	if d > lowest {
		i = min(int(math.Log(float64(d)/float64(lowest))/math.Log(growth)), buckets-1)
	}
	l.count++
	l.buckets[i]++
}

// quantile returns the middle of the bucket that holds a quantile, 0 for an empty histogram.
func (l *latencies) quantile(q float64) time.Duration {
	if l.count == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(l.count)))
	seen := uint64(0)
	for i, n := range l.buckets {
		if seen += uint64(n); seen >= rank {
			return time.Duration(float64(lowest) * math.Pow(growth, float64(i)) * math.Sqrt(growth))
		}
	}
	return 0
}
