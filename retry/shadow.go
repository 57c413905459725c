package retry

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// trial is the policy under trial of a key.
type trial struct {
	policy  *policy.Policy // nil if the provider has none
	version uint64         // of the provider
}

// shadow returns what the policy under trial decides, or nil if it decides as the policy in force did. Both decide from the same
// facts and in the same state. A retry that a budget, a breaker or a limit refused is taken as refused under both.
func (r *run) shadow(j *judgement, b *basis) (d *observe.ShadowDecision) {
	if j.rule == "" || !j.facts.Failed && j.facts.Classified == nil {
		return nil // nothing was judged, or a plain success, which every policy judges in the same way
	}
	if r.e.options.RecoverPanics {
		defer func() {
			if v := recover(); v != nil {
				r.e.report(r.ctx, r.rec.work(r), &observe.Report{
					Reason: policy.ReasonPanicInProvider, Panic: v, Stack: debug.Stack(), Detail: "the provider of the policies under trial panicked; the work goes on",
				})
			}
		}()
	}
	p := r.trial()
	if p == nil {
		return nil
	}
	o, _ := decision.Judge(&p.Retry, &j.facts)
	if len(b.group) > 1 {
		o.Pushback = max(o.Pushback, j.outcome.Pushback) // of another attempt of the group
	}
	s := r.stateUnder(p, b.state)
	v := decision.Next(&p.Retry, &s, &o)
	if v == r.verdict {
		return nil
	}
	if v.Action == decision.Retry && r.verdict.Action == decision.Stop && decision.Next(&r.plan.policy.Retry, &b.state, &j.outcome).Action == decision.Retry {
		return nil
	}
	return &observe.ShadowDecision{Revision: p.Meta.Revision, Verdict: v}
}

// trial returns the policy under trial of the run's key, changed by the options of the call as the policy in force is.
func (r *run) trial() *policy.Policy {
	p := r.e.trialOf(r.plan)
	if p == nil || r.options.edit == nil && (r.options.category == "" || p.Category != "") {
		return p
	}
	changed := r.e.changed(p, r.options)
	normal, err := changed.Normalize(r.e.lockedLimits(r.plan.surface))
	if err != nil {
		return nil
	}
	normal.Meta.Revision = p.Meta.Revision
	return &normal
}

// ended is a context that has ended. A provider under trial gets it, so that no work waits for the provider's first answer.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// trialOf returns the policy under trial of a plan's key, or nil. It asks the provider again when its version changes.
func (e *Executor) trialOf(p *plan) *policy.Policy {
	versioned, ok := e.options.Shadow.(policy.Versioned)
	version := uint64(noVersion)
	if ok {
		version = versioned.Version()
	}
	if t := p.state.trial.Load(); ok && t != nil && t.version == version {
		return t.policy
	}
	found, err := e.options.Shadow.Policy(ended, p.key)
	if err != nil {
		found = nil
	}
	if found != nil && !found.Compiled() {
		if normal, err := found.Normalize(e.lockedLimits(p.surface)); err == nil {
			found = &normal
		} else {
			found = nil
		}
	}
	p.state.trial.Store(&trial{found, version})
	return found
}

// stateUnder returns the state of a decision as it is under a policy that is not the run's.
func (r *run) stateUnder(p *policy.Policy, s decision.State) decision.State {
	now := &r.plan.policy.Retry
	if s.MaxAttempts > 0 { // the work's own maximum is visible if it is below the policy's
		if s.MaxAttempts < now.MaxAttempts {
			s.MaxAttempts = min(s.MaxAttempts, p.Retry.MaxAttempts)
		} else {
			s.MaxAttempts = p.Retry.MaxAttempts
		}
	}
	if s.Seed == 0 && decision.Draws(p.Retry.Jitter) {
		s.Seed = r.seedOf()
	}
	if r.once != nil && r.once.nextDelay != nil && !s.External {
		s.External = true // user code computes the delay, and was not asked
	}
	if overall := p.Retry.OverallTimeout; overall != now.OverallTimeout || s.Left == decision.Unbounded {
		s.Left, s.LeftReason = r.leftUntil(r.deadlineUnder(overall))
	}
	return s
}

// deadlineUnder returns the deadline that the run would have with another overall timeout.
func (r *run) deadlineUnder(overall time.Duration) time.Duration {
	switch {
	case overall <= 0 || overall >= noTimeout:
		return 0
	case r.deadline != 0:
		return r.deadline + overall - r.plan.policy.Retry.OverallTimeout
	}
	began := r.e.elapsed() - r.rec.now(r.e).Sub(r.rec.started)
	if r.once != nil {
		began -= r.once.age
	}
	return began + overall
}
