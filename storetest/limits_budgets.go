package storetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

func budgetCases() []limitsCase {
	return []limitsCase{
		{"B1/the extra attempts of ten processes stay within ratio · calls + burst + n · lot", extraAttemptsInBound},
		{"B1/what the calls of one process earn another may spend", earningsAreShared},
		{"B1/tokens that are not spent come back", tokensComeBack},
		{"B1/a token bucket bounds the attempts of all processes", bucketInBound},
	}
}

func budgetOutages() []limitsCase {
	return []limitsCase{
		{"B2/processes go on while the store is away, within the bound", outageInBound},
		{"B2/no attempt waits for a store that is away", nothingWaits},
		{"B2/the outage of the store and its end are observed", outageIsObserved},
	}
}

// process is one simulated process with its part of a budget.
type process struct {
	hub    *sharing.Hub
	budget budget.Budget
	calls  atomic.Int64
	extra  atomic.Int64
}

const budgetName = "api"

func (s *limits) processes(n int, b policy.Budget) []*process {
	s.Helper()
	b.Scope = policy.ScopeShared
	all := make([]*process, n)
	for i := range all {
		all[i] = &process{hub: s.hub(i)}
		registry := budget.NewSharedRegistry(all[i].hub)
		s.ok(registry.Apply(map[string]policy.Budget{budgetName: b}))
		all[i].budget, _ = registry.Get(budgetName)
	}
	return all
}

func (p *process) ask(attempt int) budget.Decision {
	return p.budget.AllowAttempt(context.Background(), policy.Key{Name: "k"}, attempt, budget.KindRetry, policy.BudgetRef{Name: budgetName, Cost: 1})
}

// call makes a call whose attempts all fail.
func (p *process) call(attempts int) {
	p.calls.Add(1)
	p.ask(0)
	for i := 1; i < attempts && p.ask(i).Allowed; i++ {
		p.extra.Add(1)
	}
}

// load makes calls that fail, every process at its own pace, until the time is over.
func load(all []*process, d time.Duration) {
	end := time.Now().Add(d)
	atOnce(len(all), func(i int) {
		for time.Now().Before(end) {
			all[i].call(4)
			time.Sleep(time.Duration(i+1) * time.Millisecond)
		}
	})
}

// checkBound checks R8's bound for all processes together, and that the budget allowed what it could.
func (s *limits) checkBound(all []*process, ratio, burst float64) {
	s.Helper()
	var calls, extra float64
	for _, p := range all {
		calls += float64(p.calls.Load())
		extra += float64(p.extra.Load())
	}
	lot := sharing.Terms{Capacity: burst, Earn: ratio}.Lot()
	bound := ratio*calls + burst + float64(len(all))*lot
	if extra > bound {
		s.Errorf("%v extra attempts of %v calls, the bound is %v", extra, calls, bound)
	}
	if least := ratio*calls*0.8 + burst*0.5; extra < least {
		s.Errorf("%v extra attempts of %v calls, want at least %v", extra, calls, least)
	}
}

func extraAttemptsInBound(s *limits) {
	all := s.processes(10, policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 40})
	load(all, 2*time.Second)
	s.checkBound(all, 0.2, 40)
}

func earningsAreShared(s *limits) {
	all := s.processes(2, policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.5, Burst: 20})
	healthy, failing := all[0], all[1]
	s.until("the burst to be spent", func() bool {
		failing.call(2)
		return failing.extra.Load() >= 20
	})
	before := failing.extra.Load()
	s.until("the earnings of the other process", func() bool {
		healthy.call(1)
		if failing.ask(1).Allowed {
			failing.extra.Add(1)
		}
		return failing.extra.Load() >= before+30
	})
}

func tokensComeBack(s *limits) {
	all := s.processes(3, policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.000001, Burst: 100})
	for range 8 {
		for _, p := range all[:2] {
			p.ask(1)
			p.ask(1)
		}
		time.Sleep(50 * time.Millisecond)
	}
	spent := 0
	for _, p := range all[:2] {
		s.ok(p.hub.Close(context.Background()))
	}
	s.until("the tokens that the others returned", func() bool {
		for all[2].ask(1).Allowed {
			spent++
		}
		return spent >= 100-2*8*2
	})
}

func bucketInBound(s *limits) {
	all := s.processes(5, policy.Budget{Kind: policy.BudgetTokenBucket, Capacity: 20, RefillPerSecond: 200})
	begin := time.Now()
	var allowed atomic.Int64
	atOnce(len(all), func(i int) {
		for time.Since(begin) < 2*time.Second {
			if all[i].ask(0).Allowed {
				allowed.Add(1)
			}
			time.Sleep(time.Millisecond)
		}
	})
	lot := sharing.Terms{Capacity: 20, Refill: 200}.Lot()
	took := time.Since(begin).Seconds() + 0.1
	if bound := 20 + 200*took + 5*lot; float64(allowed.Load()) > bound {
		s.Errorf("%d attempts in %.2f s, the bound is %.0f", allowed.Load(), took, bound)
	}
	if allowed.Load() < 200 {
		s.Errorf("only %d attempts in %.2f s at 200 a second", allowed.Load(), took)
	}
}

func outageInBound(s *limits) {
	all := s.processes(10, policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 40})
	load(all, 500*time.Millisecond)
	s.outage(func() {
		before := all[0].extra.Load()
		load(all, time.Second)
		if all[0].extra.Load() == before {
			s.Error("a process without its store spent nothing of what its own calls earned")
		}
	})
	load(all, 2*time.Second)
	s.checkBound(all, 0.2, 40)
	s.until("the store to be back", func() bool { all[0].call(2); return !all[0].hub.Status().Away })
}

func nothingWaits(s *limits) {
	all := s.processes(2, policy.Budget{Kind: policy.BudgetTokenBucket, Capacity: 1000, RefillPerSecond: 1000})
	load(all, 500*time.Millisecond)
	s.outage(func() {
		s.until("the outage", func() bool { all[0].call(1); return all[0].hub.Status().Away })
		time.Sleep(50 * time.Millisecond) // the load may have left nothing
		begin, allowed, refused := time.Now(), 0, 0
		for time.Since(begin) < time.Second {
			at := time.Now()
			if all[0].ask(0).Allowed {
				allowed++
			} else {
				refused++
			}
			if d := time.Since(at); d > 100*time.Millisecond {
				s.Fatalf("an attempt waited %v", d)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if refused > 0 {
			s.Errorf("a process refused %d of %d attempts, with half of 1000 a second as its share", refused, allowed+refused)
		}
	})
}

func outageIsObserved(s *limits) {
	p := s.processes(1, policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 40})[0]
	seen := make(chan sharing.Status, 100)
	p.hub.Watch(func(status sharing.Status) { seen <- status })
	load([]*process{p}, 300*time.Millisecond)
	s.outage(func() {
		s.until("the outage", func() bool { p.call(2); return p.hub.Status().Away })
		if status := <-seen; !status.Away || status.Err == nil {
			s.Errorf("the outage was observed as %+v", status)
		}
	})
	s.until("the end of the outage", func() bool { p.call(2); return !p.hub.Status().Away })
	if status := <-seen; status.Away {
		s.Errorf("the end was observed as %+v", status)
	}
}
