package decision_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/big"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// This file is a second implementation of delays, written from testdata/README.md: big integers instead of wrapping
// arithmetic, and big.Float with 53 bits instead of the processor's float64. Its operations cannot be fused or overflow.

var (
	gamma = hexInt("9E3779B97F4A7C15")
	mixA  = hexInt("BF58476D1CE4E5B9")
	mixB  = hexInt("94D049BB133111EB")
	mask  = hexInt("FFFFFFFFFFFFFFFF")
)

func hexInt(s string) *big.Int {
	n, ok := new(big.Int).SetString(s, 16)
	if !ok {
		panic("not a hexadecimal number: " + s)
	}
	return n
}

func referenceSeed(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return hexInt(hex.EncodeToString(sum[:])[:16]).Uint64()
}

// referenceDraw is output i of SplitMix64 for the seed.
func referenceDraw(seed uint64, i int) *big.Int {
	z := new(big.Int).SetUint64(seed)
	z.Add(z, new(big.Int).Mul(big.NewInt(int64(i)+1), gamma)).And(z, mask)
	z.Xor(z, new(big.Int).Rsh(z, 30)).Mul(z, mixA).And(z, mask)
	z.Xor(z, new(big.Int).Rsh(z, 27)).Mul(z, mixB).And(z, mask)
	return z.Xor(z, new(big.Int).Rsh(z, 31))
}

// referenceScaled is draw i scaled to lo … hi nanoseconds.
func referenceScaled(seed uint64, i int, lo, hi int64) int64 {
	width := new(big.Int).Sub(big.NewInt(hi), big.NewInt(lo))
	width.Add(width, big.NewInt(1))
	product := width.Mul(width, referenceDraw(seed, i))
	return product.Rsh(product, 64).Int64() + lo
}

func double(n int64) *big.Float { return new(big.Float).SetPrec(53).SetInt64(n) }

func factor(f float64) *big.Float { return new(big.Float).SetPrec(53).SetFloat64(f) }

// whole truncates to an integer of 63 bits.
func whole(f *big.Float) int64 {
	if f.Cmp(new(big.Float).SetInt64(math.MaxInt64)) >= 0 {
		return math.MaxInt64
	}
	n, _ := f.Int64()
	return n
}

func referenceCap(r *policy.Retry) int64 {
	if r.MaxBackoff == 0 {
		return math.MaxInt64
	}
	return int64(r.MaxBackoff)
}

func referenceBase(r *policy.Retry, i int) int64 {
	d, m := double(int64(r.InitialBackoff)), factor(r.BackoffMultiplier)
	if r.InitialBackoff == 0 || r.BackoffMultiplier == 1 {
		i = 0 // no product differs
	}
	for range i {
		if d.Mul(d, m); d.MantExp(nil) > 64 {
			break // beyond every cap
		}
	}
	return min(whole(d), referenceCap(r))
}

// referenceDelays lists the delays before retries 0 … n-1. Decorrelated jitter keeps the previous delay as its state.
func referenceDelays(r *policy.Retry, seed uint64, n int) []time.Duration {
	list := make([]time.Duration, n)
	previous := min(int64(r.InitialBackoff), referenceCap(r))
	for i := range list {
		if r.Jitter == policy.JitterDecorrelated {
			previous = referenceDecorrelated(r, seed, i, previous)
			list[i] = time.Duration(previous)
			continue
		}
		list[i] = referenceDelay(r, seed, i)
	}
	return list
}

func referenceDecorrelated(r *policy.Retry, seed uint64, i int, previous int64) int64 {
	top := new(big.Int).Mul(big.NewInt(3), big.NewInt(previous))
	if ceiling := big.NewInt(referenceCap(r)); top.Cmp(ceiling) > 0 {
		top = ceiling
	}
	return referenceScaled(seed, i, min(int64(r.InitialBackoff), referenceCap(r)), top.Int64())
}

// referenceDelay is the delay of any other jitter.
func referenceDelay(r *policy.Retry, seed uint64, i int) time.Duration {
	d := referenceBase(r, i)
	lo, hi := d, d
	switch r.Jitter {
	case policy.JitterNone:
		return time.Duration(d)
	case policy.JitterFull:
		lo = 0
	case policy.JitterEqual:
		lo = d / 2
	case policy.JitterProportional:
		spread := whole(new(big.Float).SetPrec(53).Mul(double(d), factor(r.JitterFactor)))
		lo = max(d-spread, 0)
		sum := new(big.Int).Add(big.NewInt(d), big.NewInt(spread))
		if sum.Cmp(big.NewInt(referenceCap(r))) > 0 {
			sum.SetInt64(referenceCap(r))
		}
		hi = sum.Int64()
	}
	return time.Duration(referenceScaled(seed, i, lo, hi))
}
