package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/policy"
)

func circuitCases() []limitsCase {
	return []limitsCase{
		{"B3/an opening reaches the other processes within a second", openingIsShared},
		{"B3/each process keeps its own window", windowsAreSeparate},
		{"B3/probes are bounded over all processes", probesAreBounded},
		{"B3/the success of the probes closes the breaker everywhere", closingIsShared},
		{"B3/the failure of a probe opens the breaker everywhere again", probeFails},
		{"B3/a process that dies with a probe does not keep the breaker open", deadProbe},
		{"B3/a probe that nobody uses passes to a process that waits for it", unusedProbe},
	}
}

func circuitOutages() []limitsCase {
	return []limitsCase{
		{"B2/a breaker works by itself while the store is away", breakerAlone},
	}
}

// breakers are one breaker in some processes.
type breakers struct {
	*limits
	list  []*circuit.Breaker
	begin time.Time
}

func (s *limits) breakers(n int, c policy.Circuit) *breakers {
	s.Helper()
	c.Scope = policy.ScopeShared
	p, err := policy.Policy{Circuit: c}.Normalize(policy.CallLimits())
	s.ok(err)
	b := &breakers{limits: s, begin: time.Now()}
	for i := range n {
		b.list = append(b.list, circuit.NewShared(p.Circuit, circuit.SharedOptions{Hub: s.hub(i), Name: "k", Clock: b.now, Changed: func(circuit.Transition) {}}))
	}
	time.Sleep(50 * time.Millisecond)
	return b
}

// opened returns breakers that the first process has opened.
func (s *limits) opened(n int, c policy.Circuit) *breakers {
	s.Helper()
	b := s.breakers(n, c)
	b.open(0)
	b.all(circuit.Open)
	return b
}

func (b *breakers) now() time.Duration { return time.Since(b.begin) }

// attempt makes an attempt of a process, and reports whether it was admitted.
func (b *breakers) attempt(i int, r circuit.Result) bool {
	ticket, _, ok := b.list[i].Acquire(b.now(), false)
	if ok {
		b.list[i].Done(ticket, r, 0, b.now())
	}
	return ok
}

func (b *breakers) open(i int) {
	b.Helper()
	for range 3 {
		b.attempt(i, circuit.Failure)
	}
	same(b, "the breaker after three failures in a row", b.list[i].State(b.now()), circuit.Open)
}

// all waits until every breaker is in a state, for at most a second. An open breaker whose cooldown is over counts as open.
func (b *breakers) all(want circuit.State) {
	b.Helper()
	begin := time.Now()
	for _, breaker := range b.list {
		for state := breaker.State(b.now()); state != want && (want != circuit.Open || state == circuit.Closed); state = breaker.State(b.now()) {
			if time.Since(begin) > time.Second {
				b.Fatalf("a breaker is still %v after a second, want %v", breaker.State(b.now()), want)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func three(cooldown time.Duration, probes int) policy.Circuit {
	return policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 3, Cooldown: cooldown, Probes: probes}
}

func openingIsShared(s *limits) {
	b := s.breakers(5, three(time.Minute, 1))
	b.open(3)
	b.all(circuit.Open)
	for i := range b.list {
		if wait := b.list[i].Wait(b.now()); b.attempt(i, circuit.Success) || wait < 55*time.Second || wait > time.Minute {
			s.Errorf("process %d waits %v of the cooldown", i, wait)
		}
	}
}

func windowsAreSeparate(s *limits) {
	b := s.breakers(3, three(time.Minute, 1))
	for range 2 {
		for i := range b.list {
			b.attempt(i, circuit.Failure)
		}
		time.Sleep(300 * time.Millisecond)
	}
	b.all(circuit.Closed)
}

// probing makes attempts of every process until stop, each of which takes a while, and returns the most that ran at once.
func (b *breakers) probing(d time.Duration, r circuit.Result) (most, total int64) {
	var running, highest, admitted atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(d)
	for _, breaker := range b.list {
		for range 2 {
			all.Go(func() {
				for time.Now().Before(end) {
					ticket, _, ok := breaker.Acquire(b.now(), false)
					if ok && ticket.Probe() {
						n := running.Add(1)
						admitted.Add(1)
						for now := highest.Load(); n > now && !highest.CompareAndSwap(now, n); now = highest.Load() {
						}
						time.Sleep(100 * time.Millisecond)
						running.Add(-1)
					}
					if ok {
						breaker.Done(ticket, r, 0, b.now())
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
	}
	all.Wait()
	return highest.Load(), admitted.Load()
}

func probesAreBounded(s *limits) {
	b := s.opened(5, three(500*time.Millisecond, 2))
	most, total := b.probing(3*time.Second, circuit.Ignored) // which frees the slots, and decides nothing
	if most > 2 || total < 4 {
		s.Errorf("%d probes ran at once and %d in all, want at most 2 at once, and several", most, total)
	}
}

func closingIsShared(s *limits) {
	b := s.opened(3, three(300*time.Millisecond, 2))
	s.until("probes to succeed", func() bool {
		b.attempt(1, circuit.Success)
		return b.list[1].State(b.now()) == circuit.Closed
	})
	b.all(circuit.Closed)
	b.open(2)
	b.all(circuit.Open)
}

func probeFails(s *limits) {
	b := s.opened(3, three(2*time.Second, 1))
	s.until("the probe", func() bool { return b.attempt(1, circuit.Failure) })
	for i := range b.list { // the old cooldown may not be over yet where the failure has not been heard of
		s.until("the new cooldown", func() bool { return b.list[i].Wait(b.now()) >= time.Second })
	}
}

func deadProbe(s *limits) {
	b := s.opened(2, three(300*time.Millisecond, 1))
	s.until("the probe", func() bool { _, _, ok := b.list[0].Acquire(b.now(), false); return ok })
	s.abandon(0) // the process ends without a word
	if b.attempt(1, circuit.Success) {
		s.Error("a second probe was let through while the lease of the first was live")
	}
	s.until("the lease to expire", func() bool { return b.attempt(1, circuit.Success) })
	b.list = b.list[1:]
	b.all(circuit.Closed)
}

func unusedProbe(s *limits) {
	b := s.opened(2, three(300*time.Millisecond, 1))
	s.until("the lease", func() bool { _, ok := b.list[0].Look(b.now()); return ok }) // and makes no attempt
	s.until("the lease to pass on", func() bool { return b.attempt(1, circuit.Success) })
	b.all(circuit.Closed)
}

func breakerAlone(s *limits) {
	b := s.breakers(2, three(300*time.Millisecond, 1))
	s.outage(func() {
		s.until("the outage", func() bool {
			_, err := s.Load(context.WithoutCancel(s.ctx), nil)
			return err != nil || s.options.Restart == nil
		})
		time.Sleep(500 * time.Millisecond)
		b.open(0)
		if b.list[1].State(b.now()) != circuit.Closed {
			s.Error("the breaker of the other process has opened") // and the outage ends, for the cases that follow
		}
		s.until("the probe", func() bool { return b.attempt(0, circuit.Failure) })
	})
	s.until("the opening to reach the other process", func() bool {
		b.attempt(0, circuit.Failure)
		return b.list[1].State(b.now()) != circuit.Closed
	})
	s.until("the breakers to close", func() bool {
		b.attempt(0, circuit.Success)
		b.attempt(1, circuit.Success)
		return b.list[0].State(b.now()) == circuit.Closed && b.list[1].State(b.now()) == circuit.Closed
	})
}
