package budget

import (
	"context"
	"sync/atomic"

	"github.com/tenetdev/tenet/policy"
)

// Concurrency bounds how many attempts run at a time, over all calls that share it, first attempts included. An attempt
// takes its cost for as long as it runs. Safe for concurrent use.
//
// It is asked when an attempt is launched (see [AtLaunch]), so that a retry holds nothing while it waits. It refuses at once
// instead of queueing. Documents cannot describe it; register it in code.
type Concurrency struct {
	limit    int64
	inFlight atomic.Int64
	release  func() // of an attempt of cost 1, made once
}

// NewConcurrency makes a budget of limit attempts at a time; a limit of 0 or less refuses everything.
func NewConcurrency(limit int) *Concurrency {
	b := &Concurrency{limit: int64(limit)}
	b.release = func() { b.inFlight.Add(-1) }
	return b
}

// AllowAttempt takes the attempt's cost until Release, or refuses.
func (b *Concurrency) AllowAttempt(_ context.Context, _ policy.Key, _ int, _ AttemptKind, ref policy.BudgetRef) Decision {
	cost := int64(Cost(ref))
	for {
		n := b.inFlight.Load()
		if cost > b.limit-n {
			return Deny("too many attempts in flight")
		}
		if b.inFlight.CompareAndSwap(n, n+cost) {
			break
		}
	}
	d := Allow()
	d.Release = b.release
	if cost > 1 {
		d.Release = func() { b.inFlight.Add(-cost) }
	}
	return d
}

// AskAtLaunch returns true.
func (*Concurrency) AskAtLaunch() bool { return true }

// InFlight returns the cost of the attempts that run now.
func (b *Concurrency) InFlight() int { return int(b.inFlight.Load()) }
