package decision

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Seed derives the seed of a piece of work from its ID: the first 8 bytes, big endian, of the ID's SHA-256.
func Seed(workID string) uint64 {
	sum := sha256.Sum256([]byte(workID))
	return binary.BigEndian.Uint64(sum[:8])
}

// StepSeed is the seed of one step of a transaction. The order is that of the seeded text, <transaction>/<step>.
func StepSeed(transactionID, step string) uint64 { return Seed(transactionID + "/" + step) }

// Draws reports whether delays under j depend on the seed.
func Draws(j policy.Jitter) bool { return j != policy.JitterNone }

// Delay is the wait before retry i, where 0 is the first retry: min(backoff · multiplier^i, cap), spread by the policy's
// jitter. It is never negative and never above the cap, and saturates for any i. A cap of 0 means no cap. The policy must be
// normalised.
func Delay(r *policy.Retry, seed uint64, i int) time.Duration {
	if r.Jitter == policy.JitterDecorrelated {
		return decorrelated(r, seed, i)
	}
	lowest, highest := Bounds(r, i)
	return draw(seed, i, lowest, highest)
}

// Bounds is the shortest and the longest wait before retry i that [Delay] returns for any seed.
func Bounds(r *policy.Retry, i int) (lowest, highest time.Duration) {
	ceiling := capOf(r)
	d := base(r, i, ceiling)
	switch r.Jitter {
	case policy.JitterFull:
		return 0, d
	case policy.JitterEqual:
		return d / 2, d
	case policy.JitterProportional:
		spread := truncate(float64(float64(d) * r.JitterFactor))
		return max(d-spread, 0), min(Sum(d, spread), ceiling)
	case policy.JitterDecorrelated:
		lowest = min(max(r.InitialBackoff, 0), ceiling)
		highest = lowest
		for k := 0; k <= i && 0 < highest && highest < ceiling; k++ {
			highest = min(tripled(highest), ceiling)
		}
		return lowest, highest
	}
	return d, d
}

func capOf(r *policy.Retry) time.Duration {
	if r.MaxBackoff <= 0 {
		return math.MaxInt64
	}
	return r.MaxBackoff
}

// base multiplies step by step. The conversions keep every platform from fusing the products with anything else, so that
// the result is the same everywhere. It stops once the product is past the cap; top is the cap rounded to a float, hence <=.
func base(r *policy.Retry, i int, ceiling time.Duration) time.Duration {
	d := float64(max(r.InitialBackoff, 0))
	top := float64(ceiling)
	if r.BackoffMultiplier > 1 && d > 0 {
		for ; i > 0 && d <= top; i-- {
			d = float64(d * r.BackoffMultiplier)
		}
	}
	return min(truncate(d), ceiling)
}

// decorrelated draws from [backoff, 3 × the previous delay], cut at the cap. The previous delays are drawn again from the
// seed, so that no state is kept.
func decorrelated(r *policy.Retry, seed uint64, i int) time.Duration {
	ceiling := capOf(r)
	lowest := min(max(r.InitialBackoff, 0), ceiling)
	d := lowest
	for k := 0; k <= i; k++ {
		d = draw(seed, k, lowest, min(tripled(d), ceiling))
	}
	return d
}

// draw returns value i of the seed's sequence in [lo, hi]: SplitMix64 (Steele, Lea and Flood, 2014) as a counter-based
// generator, scaled by the high half of a 128-bit product.
func draw(seed uint64, i int, lo, hi time.Duration) time.Duration {
	z := seed + uint64(i+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	z ^= z >> 31
	offset, _ := bits.Mul64(z, uint64(hi-lo)+1)
	return lo + time.Duration(offset)
}

func truncate(f float64) time.Duration {
	if f >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(f)
}

// Sum adds delays that are not negative. A sum that would overflow is the longest duration, so the order does not matter.
func Sum(delays ...time.Duration) (total time.Duration) {
	for _, d := range delays {
		if total > math.MaxInt64-d {
			return math.MaxInt64
		}
		total += d
	}
	return total
}

func tripled(d time.Duration) time.Duration {
	if d > math.MaxInt64/3 {
		return math.MaxInt64
	}
	return 3 * d
}
