package circuit

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/policy"
)

// model is a simple model of Breaker that keeps every counted attempt.
type model struct {
	c                  policy.Circuit
	state              State
	phase              int
	openedAt           time.Duration
	probing, succeeded int
	streak             int
	newest             int64 // bucket of the latest counted attempt
	counted            []counted
}

type counted struct {
	bucket int64
	bad    bool
}

type modelTicket struct {
	phase int
	probe bool
}

func (m *model) enter(s State) {
	m.state, m.phase = s, m.phase+1
	m.probing, m.succeeded, m.streak, m.newest, m.counted = 0, 0, 0, 0, nil
}

func (m *model) look(now time.Duration) (State, bool) {
	switch {
	case m.state == Open && now-m.openedAt < m.c.Cooldown:
		return Open, false
	case m.state == Open:
		return HalfOpen, true
	case m.state == HalfOpen:
		return HalfOpen, m.probing < m.c.Probes
	}
	return Closed, true
}

func (m *model) acquire(now time.Duration, hedge bool) (modelTicket, bool) {
	s, ok := m.look(now)
	if !ok || s == HalfOpen && hedge {
		return modelTicket{}, false
	}
	if m.state == Open {
		m.enter(HalfOpen)
	}
	if s == HalfOpen {
		m.probing++
	}
	return modelTicket{m.phase, s == HalfOpen}, true
}

func (m *model) done(t modelTicket, r Result, took, now time.Duration) {
	if t.phase != m.phase {
		return
	}
	tooSlow := m.c.Kind == policy.CircuitSlow && took > m.c.SlowAfter
	switch {
	case t.probe:
		m.probing--
		switch {
		case r == Ignored:
		case r == Failure || tooSlow:
			m.enter(Open)
			m.openedAt = now
		default:
			if m.succeeded++; m.succeeded >= m.c.Probes {
				m.enter(Closed)
			}
		}
	case r != Ignored && m.count(r, tooSlow, now):
		m.enter(Open)
		m.openedAt = now
	}
}

func (m *model) count(r Result, tooSlow bool, now time.Duration) (open bool) {
	if m.c.Kind == policy.CircuitConsecutive {
		if r == Success {
			m.streak = 0
			return false
		}
		m.streak++
		return m.streak >= m.c.Failures
	}
	bad, share := r == Failure, m.c.FailureRate
	if m.c.Kind == policy.CircuitSlow {
		bad, share = tooSlow, m.c.SlowRate
	}
	m.newest = int64(now / (m.c.Window / 10))
	m.counted = append(m.counted, counted{m.newest, bad})
	if !bad {
		return false
	}
	calls, failed := m.totals()
	return calls >= m.c.MinimumCalls && float64(failed)/float64(calls) >= share
}

func (m *model) totals() (calls, bad int) {
	for _, c := range m.counted {
		if c.bucket > m.newest-10 {
			calls++
			if c.bad {
				bad++
			}
		}
	}
	return calls, bad
}

func (m *model) update(c policy.Circuit) {
	if m.c.Kind != c.Kind {
		m.c = c
		m.enter(Closed)
		return
	}
	if m.c.Kind != policy.CircuitConsecutive && m.c.Window != c.Window {
		last := time.Duration(m.newest) * (m.c.Window / 10)
		calls, bad := m.totals()
		m.newest, m.counted = int64(last/(c.Window/10)), nil
		for i := range calls {
			m.counted = append(m.counted, counted{m.newest, i < bad})
		}
	}
	m.c = c
}

func drawPolicy(t *rapid.T) policy.Circuit {
	share := rapid.SampledFrom([]float64{0.1, 0.3, 0.5, 1}).Draw(t, "share")
	return policy.Circuit{
		Kind:         rapid.SampledFrom([]policy.CircuitKind{policy.CircuitConsecutive, policy.CircuitRate, policy.CircuitSlow}).Draw(t, "kind"),
		Failures:     rapid.IntRange(1, 4).Draw(t, "failures"),
		FailureRate:  share,
		SlowRate:     share,
		SlowAfter:    50,
		MinimumCalls: rapid.IntRange(1, 12).Draw(t, "minimum"),
		Window:       time.Duration(rapid.SampledFrom([]int{100, 1000}).Draw(t, "window")),
		Cooldown:     time.Duration(rapid.IntRange(1, 200).Draw(t, "cooldown")),
		Probes:       rapid.IntRange(1, 3).Draw(t, "probes"),
	}
}

func TestR11BreakerEqualsModel(t *testing.T) {
	type pair struct {
		real  Ticket
		model modelTicket
	}
	rapid.Check(t, func(t *rapid.T) {
		c := drawPolicy(t)
		b, m := New(c), &model{c: c}
		var now time.Duration
		var open []pair // tickets not yet done
		failing := rapid.Bool().Draw(t, "failing")
		acquire := func(hedge bool) {
			rt, tr, ok := b.Acquire(now, hedge)
			from := m.state
			mt, want := m.acquire(now, hedge)
			if ok != want || rt.Probe() != mt.probe || tr != change(from, m.state) {
				t.Fatalf("at %d: acquire = %v, probe %v, %v; model: %v, probe %v, %v", now, ok, rt.Probe(), tr, want, mt.probe, change(from, m.state))
			}
			if ok {
				open = append(open, pair{rt, mt})
			}
		}
		done := func(i int, r Result, took time.Duration) {
			p := open[i]
			open = append(open[:i:i], open[i+1:]...)
			tr := b.Done(p.real, r, took, now)
			from := m.state
			m.done(p.model, r, took, now)
			if tr != change(from, m.state) {
				t.Fatalf("at %d: done(%v, %v) = %v; model: %v", now, r, took, tr, change(from, m.state))
			}
		}
		results := []Result{Success, Success, Success, Failure, Ignored}
		if failing {
			results = []Result{Success, Failure, Failure, Failure, Ignored}
		}
		drawResult := func() (Result, time.Duration) {
			return rapid.SampledFrom(results).Draw(t, "result"), time.Duration(rapid.SampledFrom([]int{1, 50, 51}).Draw(t, "took"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {
				s, ok := b.Look(now)
				if ms, mok := m.look(now); s != ms || ok != mok || b.State(now) != ms {
					t.Fatalf("at %d: look = %v %v; model: %v %v", now, s, ok, ms, mok)
				}
				if w := b.Wait(now); (w == 0) != ok || w < 0 {
					t.Fatalf("at %d: wait = %v while look = %v %v", now, w, s, ok)
				}
			},
			"time":      func(t *rapid.T) { now += time.Duration(rapid.IntRange(0, 120).Draw(t, "by")) },
			"long time": func(t *rapid.T) { now += time.Duration(rapid.IntRange(1000, 100_000).Draw(t, "by")) },
			"acquire":   func(t *rapid.T) { acquire(false) },
			"hedge":     func(t *rapid.T) { acquire(true) },
			"done": func(t *rapid.T) {
				if len(open) == 0 {
					return
				}
				r, took := drawResult()
				done(rapid.IntRange(0, len(open)-1).Draw(t, "ticket"), r, took)
			},
			"attempts": func(t *rapid.T) {
				for range rapid.IntRange(1, 10).Draw(t, "count") {
					n := len(open)
					if acquire(false); len(open) > n {
						r, took := drawResult()
						done(n, r, took)
					}
				}
			},
			"update": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
					return // frequent updates would prevent counting
				}
				c := drawPolicy(t)
				if rapid.Bool().Draw(t, "same kind") {
					c.Kind = m.c.Kind
				}
				from := m.state
				m.update(c)
				if tr := b.Update(c); tr != change(from, m.state) {
					t.Fatalf("update = %v; model: %v", tr, change(from, m.state))
				}
			},
		})
	})
}

func change(from, to State) Transition {
	if from == to {
		return Transition{}
	}
	return Transition{from, to}
}
