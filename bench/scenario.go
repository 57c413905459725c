package main

import (
	"context"
	"errors"
	"testing"

	"github.com/tenetdev/tenet/policy"
)

// Work is what a case repeats until it succeeds.
type Work func(ctx context.Context) error

// Call is one use of a library. It is safe for concurrent use.
type Call func(ctx context.Context) error

// Scenario is a piece of work that several libraries do.
type Scenario struct {
	Name     string
	Note     string // the setup
	Work     Work
	Attempts int  // number of times a call runs Work
	Fails    bool // whether a call ends in an error
	Cases    []Case
}

// Case is a library in a scenario.
type Case struct {
	Peer string
	New  func(work Work) Call // sets up once; only the Call is measured
}

// The peers that bars refer to.
const (
	tenet    = "Tenet"
	failsafe = "failsafe-go"
	cenkalti = "cenkalti/backoff v5"
	avast    = "avast/retry-go v5"
	byHand   = "hand-written"

	ownBudget = "Tenet, budget of one process"

	cenkaltiPerCall = cenkalti + ", options per call"
)

var errWork = errors.New("the other side failed")

func succeed(context.Context) error { return nil }

func fail(context.Context) error { return errWork }

// waitable succeeds after asking for its context's Done channel, as a network client does.
func waitable(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	default:
		return nil
	}
}

// serial measures a case on one goroutine.
func serial(b *testing.B, s Scenario, c Case) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	call := c.New(s.Work)
	b.ReportAllocs()
	for b.Loop() {
		_ = call(ctx)
	}
}

// parallel measures a case on all processors. Goroutines share the case's setup, and each has its own context, like a
// server's request.
func parallel(b *testing.B, s Scenario, c Case) {
	call := c.New(s.Work)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for pb.Next() {
			_ = call(ctx)
		}
	})
}

// Scenarios lists everything that is measured, in the order of the report.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name: "success", Attempts: 1, Work: succeed,
			Note: "The operation succeeds at once. Tenet: keyed Do, default policy (3 attempts, exponential backoff, full jitter), without an observer. Peers: 3 attempts with exponential backoff.",
			Cases: []Case{
				{tenet, tenetDefault},
				{failsafe, failsafeRetry},
				{cenkalti, cenkalti5},
				{cenkaltiPerCall, cenkalti5PerCall},
				{"cenkalti/backoff v7", cenkalti7},
				{"avast/retry-go v4", avast4},
				{avast, avast5},
				{avast + ", a retrier per context", avast5PerContext},
				{"sethvargo/go-retry", sethvargo},
				{byHand, loop},
			},
		},
		{
			Name: "three failing attempts", Attempts: 3, Fails: true, Work: fail,
			Note: "Every attempt fails, with the same error; 1 ns between attempts, no jitter. Tenet's limits, which hold a backoff to 1 ms and more, are widened for this.",
			Cases: []Case{
				{tenet, tenetUnder(eager(), nil)},
				{failsafe, failsafeEager},
				{cenkalti, cenkalti5Eager},
				{"cenkalti/backoff v7", cenkalti7Eager},
				{"avast/retry-go v4", avast4Eager},
				{avast, avast5Eager},
				{avast + ", a retrier per context", avast5EagerPerContext},
				{"sethvargo/go-retry", sethvargoEager},
				{byHand, loopEager},
			},
		},
		{
			Name: "breaker closed", Attempts: 1, Work: succeed,
			Note: "Retries under a budget, each attempt under a failure-rate breaker that is closed (50 % of at least 20 in 10 s). gobreaker: the breaker alone, its window in 10 buckets.",
			Cases: []Case{
				{tenet, tenetUnder(guarded(), ratioBudget)},
				{failsafe, failsafeGuarded},
				{"sony/gobreaker", gobreakerClosed},
			},
		},
		{
			Name: "breaker open", Attempts: 0, Fails: true, Work: succeed,
			Note: "The breaker is open and the call is refused. failsafe-go: a retry policy that stops at an open breaker. gobreaker: the breaker alone.",
			Cases: []Case{
				{tenet, tenetOpen},
				{failsafe, failsafeOpen},
				{"sony/gobreaker", gobreakerOpen},
			},
		},
		{
			Name: "budget", Attempts: 1, Work: succeed,
			Note: "A token bucket in front of every attempt, so large that it never refuses. The clock and the shared count are its cost, also in parallel.",
			Cases: []Case{
				{tenet, tenetUnder(bucketed(), bucketBudget)},
				{"Tenet, the bucket alone", tenetBucket},
				{"x/time/rate, the limiter alone", rateLimiter},
				{byHand + " with x/time/rate", rateLoop},
				{failsafe, failsafeLimited},
			},
		},
		{
			Name: "shared budget", Attempts: 1, Work: succeed,
			Note: "Retries under a retry ratio that processes share, through a store in memory; beside it, the same budget of one process.",
			Cases: []Case{
				{tenet, tenetSharing(policy.ScopeShared)},
				{ownBudget, tenetSharing(policy.ScopeProcess)},
			},
		},
		{
			Name: "adaptive limit", Attempts: 1, Work: succeed,
			Note: "An adaptive concurrency limit, so high that it never refuses. Each attempt's latency is measured.",
			Cases: []Case{
				{tenet, tenetUnder(adaptive(), nil)},
				{failsafe, failsafeAdaptive},
			},
		},
		{
			Name: "bulkhead", Attempts: 1, Work: succeed,
			Note: "At most 1,000 attempts at a time.",
			Cases: []Case{
				{tenet, tenetUnder(bounded(), nil)},
				{failsafe, failsafeBulkhead},
			},
		},
		{
			Name: "rate limit", Attempts: 1, Work: succeed,
			Note: "A rate so high that it never refuses. failsafe-go: its bursty rate limiter.",
			Cases: []Case{
				{tenet, tenetUnder(paced(), nil)},
				{failsafe, failsafeLimited},
			},
		},
		{
			Name: "hedge", Attempts: 1, Work: succeed,
			Note: "Hedging after 1 s is on, the operation succeeds at once. failsafe-go: the hedge policy alone.",
			Cases: []Case{
				{tenet, tenetUnder(hedged(), nil)},
				{failsafe, failsafeHedged},
			},
		},
		{
			Name: "attempt timeout", Attempts: 1, Work: succeed,
			Note: "1 s for each attempt; the operation does not look at its context. Hand-written: context.WithTimeout around one call.",
			Cases: []Case{
				{tenet, tenetUnder(timed(), nil)},
				{byHand, bareTimeout},
				{failsafe, failsafeTimed},
			},
		},
		{
			Name: "attempt timeout, awaited", Attempts: 1, Work: waitable,
			Note: "The same, but the operation asks for its context's Done channel, as network clients do.",
			Cases: []Case{
				{tenet, tenetUnder(timed(), nil)},
				{byHand, bareTimeout},
				{failsafe, failsafeTimed},
			},
		},
		{
			Name: "full stack", Attempts: 1, Work: succeed,
			Note: "Retries under a budget, a failure-rate breaker, 1 s for each attempt, and hedging after 1 s.",
			Cases: []Case{
				{tenet, tenetUnder(full(), ratioBudget)},
				{failsafe, failsafeFull},
			},
		},
		{
			Name: "observer", Attempts: 1, Work: succeed,
			Note: "With an observer that does nothing. Tenet: an observer, told of the attempt, the decision and the whole timeline. failsafe-go: a listener for the end of the call.",
			Cases: []Case{
				{tenet, tenetObserved},
				{failsafe, failsafeObserved},
			},
		},
		{
			Name: "timeline", Attempts: 1, Work: succeed,
			Note: "The call's timeline is recorded and returned. No peer has one.",
			Cases: []Case{
				{tenet, tenetTimeline},
			},
		},
	}
}
