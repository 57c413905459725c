package controlplane

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// exhaustedFor is how long a budget or limit counts as exhausted after a refusal.
const exhaustedFor = time.Minute

// mechanisms keeps what events say of breakers, budgets and limits. A mechanism is known from its first opening or refusal on.
type mechanisms struct {
	breakers, budgets, limits *observe.PerKey[*mechanism]

	mu   sync.Mutex // guards list
	list []*mechanism
}

// mechanism is one breaker, budget or limit. A breaker that several executors have under the same key counts as one, with the state
// of its last change.
type mechanism struct {
	kind, name string

	mu                 sync.Mutex // guards the fields below
	state              string     // of a breaker
	since              time.Time  // when the state, or the latest run of refusals, began
	refused            time.Time  // the last refusal
	openings, refusals int64
}

func newMechanisms() *mechanisms {
	m := &mechanisms{}
	of := func(kind, state string) *observe.PerKey[*mechanism] {
		return observe.NewPerKey(0, func(name string) *mechanism {
			one := &mechanism{kind: kind, name: name, state: state, since: time.Now()}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.list = append(m.list, one)
			return one
		})
	}
	m.breakers, m.budgets, m.limits = of(protocol.Breaker, "closed"), of(protocol.Budget, ""), of(protocol.Limit, "")
	return m
}

// denied counts an attempt that was refused.
func (m *mechanisms) denied(e *observe.Event) {
	switch e.Attempt.Outcome.Reason {
	case policy.ReasonCircuitOpen, policy.ReasonHalfOpen:
		m.breakers.Get(e.Work.Key).refuse()
	case policy.ReasonConcurrencyLimited, policy.ReasonRateLimited:
		m.limits.Get(e.Work.Key).refuse()
	case policy.ReasonBudgetDenied:
		if e.Policy == nil {
			return
		}
		name := e.Policy.Retry.Budget.Name
		if e.Attempt.HedgeIndex > 0 && e.Policy.Hedge.Budget.Name != "" {
			name = e.Policy.Hedge.Budget.Name
		}
		m.budgets.Get(policy.Key{Name: name}).refuse()
	}
}

// changed notes that a breaker changed its state.
func (m *mechanisms) changed(e *observe.Event) {
	if _, known := observe.CircuitLevel(e.Circuit.To); !known {
		return
	}
	b := m.breakers.Get(e.Work.Key)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state, b.since = e.Circuit.To, time.Now()
	if e.Circuit.To == "open" {
		b.openings++
	}
}

func (o *mechanism) refuse() {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kind != protocol.Breaker && now.Sub(o.refused) >= exhaustedFor {
		o.since = now
	}
	o.refused = now
	o.refusals++
}

func (o *mechanism) report(now time.Time) protocol.Mechanism {
	o.mu.Lock()
	defer o.mu.Unlock()
	state, since := o.state, o.since
	if o.kind != protocol.Breaker {
		state = "exhausted"
		if ended := o.refused.Add(exhaustedFor); !now.Before(ended) {
			state, since = "available", ended
		}
	}
	return protocol.Mechanism{
		Kind: o.kind, Name: shorten(o.name, protocol.MaxName), State: state, Seconds: max(now.Sub(since), 0).Seconds(), Openings: o.openings, Refusals: o.refusals,
	}
}

// severity orders states, the worst first.
var severity = map[string]int{"open": 0, "exhausted": 1, "half_open": 2, "closed": 3, "available": 3}

// report returns the worst mechanisms, the worst first.
func (m *mechanisms) report(now time.Time) []protocol.Mechanism {
	m.mu.Lock()
	known := slices.Clone(m.list)
	m.mu.Unlock()
	list := make([]protocol.Mechanism, 0, len(known))
	for _, one := range known {
		if one.name != "" { // which a server would refuse
			list = append(list, one.report(now))
		}
	}
	slices.SortFunc(list, func(a, b protocol.Mechanism) int {
		return cmp.Or(severity[a.State]-severity[b.State], cmp.Compare(b.Refusals, a.Refusals), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), protocol.MaxMechanisms)]
}

// sameMechanisms reports whether two reports say the same, the passing of time aside.
func sameMechanisms(a, b []protocol.Mechanism) bool {
	return slices.EqualFunc(a, b, func(x, y protocol.Mechanism) bool {
		x.Seconds, y.Seconds = 0, 0
		return x == y
	})
}
