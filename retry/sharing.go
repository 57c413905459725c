package retry

import (
	"context"
	"log/slog"
	"strings"

	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/limit"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/sharing"
)

// reportStore reports that the store of shared limits is away, or back.
func (e *Executor) reportStore(s sharing.Status) {
	r := &observe.Report{Reason: policy.ReasonLimitStoreBack, Detail: "the store of shared limits answers again"}
	if s.Away {
		r.Reason = policy.ReasonLimitStoreAway
		r.Detail = "the store of shared limits does not answer, and each process goes on with its last known share: " + s.Err.Error()
	}
	e.report(context.Background(), observe.Work{}, r)
	if e.options.Observer == nil {
		slog.Warn("tenet: "+r.Detail, "reason", string(r.Reason))
	}
}

// noteShared notes whether the plan's policy shares something, and what it means to share if there is no hub. The caller holds mu.
func (e *Executor) noteShared(p *plan) {
	document := e.document
	if document == nil {
		document = policy.NewSet(policy.SetConfig{})
	}
	parts := document.Shared(p.policy)
	p.shares = len(parts) > 0 && e.options.Sharing != nil
	if len(parts) > 0 && !p.shares {
		p.attributes = p.attributes.With(observe.AttrNotShared, strings.Join(parts, ","))
	}
}

// storeAway reports whether attempts of the plan are admitted without the store of the limits that they share.
func (p *plan) storeAway() bool { return p.shares && p.executor.options.Sharing.Status().Away }

// updateBreaker puts a policy in force for a key's breaker, which it makes if there is none. A breaker whose scope changes starts
// over. The caller holds mu.
func (e *Executor) updateBreaker(s *keyState, c policy.Circuit) circuit.Transition {
	shares := e.options.Sharing != nil && c.Scope == policy.ScopeShared
	old := s.breaker
	if old != nil && old.Shared() == shares {
		return old.Update(c)
	}
	if !shares {
		s.breaker = circuit.New(c)
	} else {
		key := s.key
		s.breaker = circuit.NewShared(c, circuit.SharedOptions{
			Hub: e.options.Sharing, Name: key.String(), Clock: e.elapsed, Changed: func(t circuit.Transition) { e.reportCircuit(key, nil, t) },
		})
	}
	if old == nil {
		return circuit.Transition{}
	}
	old.Leave()
	return circuit.Transition{From: old.State(e.elapsed()), To: circuit.Closed}
}

// updateLimiter puts a limit in force for a key's limiter, which it makes if there is none. A limiter whose scope changes, or which
// gets or loses a shared part, starts over. The caller holds mu.
func (e *Executor) updateLimiter(s *keyState, p policy.Limit) {
	shares := e.options.Sharing != nil && p.Scope == policy.ScopeShared
	old := s.limiter
	if old != nil && old.Shared() == shares && (!shares || old.UpdateShared(p)) {
		if !shares {
			old.Update(p, e.elapsed())
		}
		return
	}
	if shares {
		s.limiter = limit.NewShared(e.options.Sharing, s.key.String(), p)
	} else {
		s.limiter = limit.New(p, e.elapsed())
	}
	if old != nil {
		old.LeaveShared()
	}
}

// reportCircuit reports a change of a breaker outside of any call, with the policy that made it, if any.
func (e *Executor) reportCircuit(key policy.Key, p *policy.Policy, t circuit.Transition) {
	if e.options.Observer == nil {
		return
	}
	e.notify(context.Background(), &observe.Event{
		Type: observe.CircuitChanged, Time: e.now(), Work: observe.Work{Key: key, Surface: key.Surface()}, Policy: p,
		Circuit: &observe.CircuitChange{From: t.From.String(), To: t.To.String()},
	})
}

// leave gives back what an evicted key holds of shared limits.
func (s *keyState) leave() {
	if s.breaker != nil {
		s.breaker.Leave()
	}
	if s.limiter != nil {
		s.limiter.LeaveShared()
	}
}
