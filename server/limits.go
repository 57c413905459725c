package server

import (
	"cmp"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits bound requests. The zero value means the defaults.
type Limits struct {
	// Rate is how many requests each caller may make in a second, in the long run, and Burst how many at once. Unknown callers,
	// and those whose token the server has not read yet, are limited by their address. Defaults 200 and 400. Following documents
	// is not limited.
	Rate  float64
	Burst int
	// HeaderBytes and HeaderTime bound the header of a request. Defaults 32 KiB and 10 s.
	HeaderBytes int
	HeaderTime  time.Duration
	// Streams is how many event streams may be open, and Followers how many programs may follow documents at a time. Defaults
	// 1,000 and 20,000.
	Streams, Followers int
}

func (l Limits) withDefaults() Limits {
	l.Rate, l.Burst = cmp.Or(l.Rate, 200), cmp.Or(l.Burst, 400)
	l.HeaderBytes, l.HeaderTime = cmp.Or(l.HeaderBytes, 32<<10), cmp.Or(l.HeaderTime, 10*time.Second)
	l.Streams, l.Followers = cmp.Or(l.Streams, 1000), cmp.Or(l.Followers, 20_000)
	return l
}

// maxBuckets bounds the callers whose rates are known.
const maxBuckets = 10_000

// limiter bounds the rate of each caller.
type limiter struct {
	limits             Limits
	streams, followers chan struct{}
	auditRuns          chan struct{} // one for each request that verifies or replays

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newLimiter(l Limits) *limiter {
	return &limiter{
		limits: l, streams: make(chan struct{}, l.Streams), followers: make(chan struct{}, l.Followers), auditRuns: make(chan struct{}, auditRuns),
		buckets: map[string]*rate.Limiter{},
	}
}

// take counts a request of a caller, or refuses it.
func (l *limiter) take(caller string) error { return l.ask(caller, true) }

// look refuses what take would refuse, and counts nothing.
func (l *limiter) look(caller string) error { return l.ask(caller, false) }

func (l *limiter) ask(caller string, count bool) error {
	if wait := l.wait(caller, time.Now(), count); wait > 0 {
		return refusal(http.StatusTooManyRequests, "too many requests", "wait for the time in Retry-After; send many jobs in one request").retryIn(wait)
	}
	return nil
}

// wait returns how long a caller has to wait, 0 if it may go on.
func (l *limiter) wait(caller string, now time.Time, count bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[caller]
	if b == nil {
		if len(l.buckets) >= maxBuckets {
			l.sweep(now)
		}
		b = rate.NewLimiter(rate.Limit(l.limits.Rate), l.limits.Burst)
		l.buckets[caller] = b
	}
	r := b.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 || !count {
		r.CancelAt(now)
	}
	return wait
}

// sweep forgets callers that are not near their limit, and all where that frees nothing.
func (l *limiter) sweep(now time.Time) {
	for name, b := range l.buckets {
		if b.TokensAt(now) >= float64(l.limits.Burst) {
			delete(l.buckets, name)
		}
	}
	if len(l.buckets) >= maxBuckets {
		clear(l.buckets)
	}
}

// enter takes one of a number of places, or refuses it.
func enter(places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, refusal(http.StatusServiceUnavailable, "too many streams are open", "close some, or use another server").retryIn(awayTime)
	}
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
