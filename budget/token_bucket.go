package budget

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/virtual"
	"github.com/tenetdev/tenet/policy"
)

const (
	// maxTokens keeps a token exact in float64, which counts in whole numbers up to 2⁵³, about 9·10¹⁵.
	maxTokens = 1e15
	// maxWait is the longest wait that Wait returns: limits may change meanwhile, and 0 tokens per second would mean forever.
	maxWait = time.Hour
)

// TokenBucket bounds the rate of all attempts, first ones included: each takes its cost in tokens, and tokens come back
// with time. It starts full. Safe for concurrent use. An attempt that costs more than the capacity is always refused.
//
// In any window of t seconds the attempts allowed cost at most capacity + refill·t.
type TokenBucket struct {
	world virtual.World // nil outside of a simulation
	_     [48]byte      // keeps what is read without the lock out of the cache line that follows

	mu       sync.Mutex
	capacity float64
	refill   float64       // tokens per second
	tokens   float64       // at `at`
	at       time.Duration // since epoch
	_        [24]byte      // fills the cache line
}

// epoch is the zero of the buckets' monotonic clock.
var epoch = time.Now()

// NewTokenBucket makes a full bucket that holds capacity tokens and regains refillPerSecond of them. Negative numbers
// and NaN count as 0, so that a bucket with an invalid capacity refuses everything.
func NewTokenBucket(capacity, refillPerSecond float64) *TokenBucket {
	return newTokenBucket(nil, capacity, refillPerSecond)
}

func newTokenBucket(w virtual.World, capacity, refillPerSecond float64) *TokenBucket {
	capacity = amount(capacity, maxTokens)
	b := &TokenBucket{capacity: capacity, refill: amount(refillPerSecond, maxTokens), tokens: capacity, world: w}
	b.at = b.now()
	return b
}

// now returns the time since epoch, or in a simulation that of its world.
func (b *TokenBucket) now() time.Duration {
	if b.world != nil {
		return b.world.Now()
	}
	return time.Since(epoch)
}

// AllowAttempt takes the attempt's cost, or refuses and takes nothing.
func (b *TokenBucket) AllowAttempt(_ context.Context, _ policy.Key, _ int, _ AttemptKind, ref policy.BudgetRef) Decision {
	cost := float64(Cost(ref))
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if cost > b.capacity {
		return Deny("the attempt costs more than the bucket holds")
	}
	tokens := b.tokensAt(now)
	if tokens < cost {
		return Deny("no tokens left")
	}
	// Only an attempt that pays moves the clock: moving it by nanoseconds at every refusal would round the refill away.
	b.tokens, b.at = tokens-cost, max(now, b.at)
	return Allow()
}

// Wait returns the time until the bucket holds ref's cost; for a cost above the capacity, the time until it is full. At
// most an hour.
func (b *TokenBucket) Wait(ref policy.BudgetRef) time.Duration {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	missing := min(float64(Cost(ref)), b.capacity) - b.tokensAt(now)
	if b.capacity < 1 {
		return maxWait // even a full bucket does not cover the cost
	}
	if missing <= 0 {
		return 0
	}
	// Rounded up, plus one: after this wait the tokens are there despite the rounding of float64.
	nanos := math.Ceil(missing/b.refill*float64(time.Second)) + 1
	if nanos < float64(maxWait) {
		return time.Duration(nanos)
	}
	return maxWait
}

// tokensAt needs b.mu. A reading taken before another caller's, but used after it, refills nothing.
func (b *TokenBucket) tokensAt(now time.Duration) float64 {
	elapsed := max(now-b.at, 0)
	return min(b.tokens+elapsed.Seconds()*b.refill, b.capacity)
}

// update changes the limits and keeps the tokens. tokensAt cuts them to the new capacity.
func (b *TokenBucket) update(capacity, refillPerSecond float64) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens, b.at = b.tokensAt(now), max(now, b.at) // earned at the old rate
	b.capacity = amount(capacity, maxTokens)
	b.refill = amount(refillPerSecond, maxTokens)
}
