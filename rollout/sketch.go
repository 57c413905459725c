package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// Sketch is a histogram of durations with fixed buckets, in microseconds: one per value below 16, then 16 of equal width
// for each doubling, up to 2^36 µs (19 hours). A quantile errs by at most 1/32 (3.1 %) of its value, or by half a microsecond.
// Sketches merge without loss. The zero value is empty and ready to use.
//
// A copy shares its buckets with the original: merge into an empty sketch to get buckets of its own.
type Sketch struct{ counts []int64 }

const (
	subBuckets    = 16
	subBits       = 4
	longestBits   = 36
	sketchError   = 1.0 / (2 * subBuckets) // relative error of a quantile
	sketchBuckets = (longestBits - subBits + 1) * subBuckets
)

// Observe counts one duration. A negative one counts as zero, one above the range as the longest.
func (s *Sketch) Observe(d time.Duration) { s.add(bucketOf(d), 1) }

// Merge adds the counts of t.
func (s *Sketch) Merge(t Sketch) {
	s.grow(len(t.counts))
	for i, n := range t.counts {
		s.counts[i] = addSaturated(s.counts[i], n)
	}
}

// Count returns the number of durations observed.
func (s Sketch) Count() int64 {
	var total int64
	for _, n := range s.counts {
		total = addSaturated(total, n)
	}
	return total
}

// Quantile returns the duration that a share q of the observed ones does not exceed: 0.95 for the 95th percentile. It
// returns 0 for an empty sketch.
func (s Sketch) Quantile(q float64) time.Duration {
	total := s.Count()
	rank := int64(math.Ceil(min(max(q, 0), 1) * float64(total)))
	rank = min(max(rank, 1), total)
	var seen int64
	for i, n := range s.counts {
		if seen = addSaturated(seen, n); seen >= rank && seen > 0 {
			return middle(i)
		}
	}
	return 0
}

func (s *Sketch) add(bucket int, n int64) {
	s.grow(bucket + 1)
	s.counts[bucket] = addSaturated(s.counts[bucket], n)
}

func (s *Sketch) grow(buckets int) {
	if missing := buckets - len(s.counts); missing > 0 {
		s.counts = append(s.counts[:len(s.counts):len(s.counts)], make([]int64, missing)...)
	}
}

func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < subBuckets {
		return int(us)
	}
	shift := bits.Len64(us) - 1 - subBits
	return min((shift+1)*subBuckets+int(us>>shift)-subBuckets, sketchBuckets-1)
}

// middle returns the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < subBuckets {
		return time.Duration(bucket)*time.Microsecond + time.Microsecond/2
	}
	shift := bucket/subBuckets - 1
	low := time.Duration(subBuckets+bucket%subBuckets) << shift * time.Microsecond
	return low + time.Microsecond<<shift/2
}

// MarshalJSON writes the buckets in use as one flat array of pairs: how far the bucket lies beyond the one before (the first:
// its index), and its count.
func (s Sketch) MarshalJSON() ([]byte, error) {
	pairs := []int64{}
	last := 0
	for i, n := range s.counts {
		if n != 0 {
			pairs = append(pairs, int64(i-last), n)
			last = i
		}
	}
	return json.Marshal(pairs)
}

// UnmarshalJSON reads the output of MarshalJSON. A bucket out of range or out of order and a count below 1 are errors.
func (s *Sketch) UnmarshalJSON(data []byte) error {
	var pairs []int64
	if err := json.Unmarshal(data, &pairs); err != nil {
		return fmt.Errorf("rollout: sketch: %w", err)
	}
	if len(pairs)%2 != 0 {
		return errors.New("rollout: sketch: a bucket lacks its count")
	}
	var read Sketch
	bucket := int64(0)
	for i := 0; i < len(pairs); i += 2 {
		gap, count := pairs[i], pairs[i+1]
		if gap < 0 || gap >= sketchBuckets-bucket || gap == 0 && i > 0 {
			return fmt.Errorf("rollout: sketch: pair %d: bucket out of range or out of order", i/2)
		}
		if count < 1 {
			return fmt.Errorf("rollout: sketch: pair %d: count %d is below 1", i/2, count)
		}
		bucket += gap
		read.add(int(bucket), count)
	}
	*s = read
	return nil
}

// IsZero reports whether the sketch is empty.
func (s Sketch) IsZero() bool { return s.Count() == 0 }

func addSaturated(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
