package prove

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// hedges reports whether the policy can hedge. Jobs and steps do not.
func (s *subject) hedges() bool {
	return s.policy.Hedge.Enabled && s.key.Surface() == policy.SurfaceCall
}

func hedgeNeverLaunches(s *subject) *answer {
	if !s.hedges() {
		return nil
	}
	h, end := &s.policy.Hedge, amplify.End(s.policy, s.within)
	a := &answer{message: fmt.Sprintf("%s: timeouts, budgets and limits let a hedge launch", s.key)}
	switch {
	case amplify.Late(s.policy, s.within):
		return a.breaks("hedge.delay", fmt.Sprintf("%s: the hedge is due %s after an attempt that has ended by %s", s.key, h.HedgeDelay, end)).
			with(s.example(Step{Ask: AskTrigger, At: Seconds(end)}))
	case s.refusesHedge():
		name, field := h.Budget.Name, "hedge.budget"
		if name == "" {
			name, field = s.policy.Retry.Budget.Name, "retry.budget"
		}
		return a.breaks(field, fmt.Sprintf("%s: budget %q can never pay for a hedge", s.key, name)).
			with(s.example(Step{Ask: AskHedge, Attempt: 2, Name: name}))
	case s.limitedTo(1):
		return a.breaks("limit.concurrency", fmt.Sprintf("%s: the attempt that a hedge would join holds the only place", s.key)).
			with(s.example(Step{Ask: AskEnter, Attempt: 1}, Step{Ask: AskEnter, Attempt: 2}))
	}
	last := s.lastHedge(end)
	if s.rateRefusesHedge(last) {
		return a.breaks("limit.rate", fmt.Sprintf("%s: the rate has no turn for a hedge within %s of the attempt that it would join", s.key, last)).
			with(s.example(Step{Ask: AskTurn, At: Seconds(last)}))
	}
	if after, refuses := s.refusesSecond(last); refuses {
		name := s.policy.Retry.Budget.Name
		return a.breaks("retry.budget", fmt.Sprintf("%s: budget %q, which the attempt has paid from, does not refill for a hedge within %s", s.key, name, after)).
			with(s.example(Step{Ask: AskPaid, Attempt: 2, Name: name, At: Seconds(after)}))
	}
	return a
}

// refusesHedge asks the hedge's budget while it is full.
func (s *subject) refusesHedge() bool {
	ref := s.refTo(Step{Ask: AskHedge})
	b, known := s.budgets[ref.Name]
	return known && b.Scope != policy.ScopeShared && admits(b, budget.KindHedge, 2, ref) == refused
}

// refusesSecond reports whether the bucket, from which the attempt that a hedge joins has paid, refills too slowly for the hedge. An
// attempt may have paid as early as its delay began.
func (s *subject) refusesSecond(last time.Duration) (after time.Duration, refuses bool) {
	ref := s.refTo(Step{Ask: AskHedge})
	if b := s.budgets[ref.Name]; last <= 0 || ref.Name != s.policy.Retry.Budget.Name || b.Kind != policy.BudgetTokenBucket || b.Scope == policy.ScopeShared {
		return 0, false
	}
	if s.policy.Retry.MaxAttempts > 1 {
		_, longest := decision.Bounds(&s.policy.Retry, s.policy.Retry.MaxAttempts-2)
		last = decision.Sum(last, max(longest, s.policy.Retry.MaxPushback))
	}
	return last, !s.pays(ref.Name, last)
}

// limitedTo reports whether at most n attempts of the key run at a time in this process.
func (s *subject) limitedTo(n int) bool {
	l := s.policy.Limit
	return l.Concurrency == n && l.Scope != policy.ScopeShared
}

// lastHedge is the last time after an attempt at which a hedge may join it, 0 for no bound.
func (s *subject) lastHedge(end time.Duration) time.Duration {
	h := &s.policy.Hedge
	if last := h.HedgeDelay * time.Duration(h.MaxHedges); h.TriggerName == policy.TriggerFixed && (end <= 0 || last < end) {
		return last
	}
	return end
}

// rateRefusesHedge reports whether the rate, of which the attempt took a turn, has none for a hedge by the last time at which one may
// join. Hedges do not wait for a turn.
func (s *subject) rateRefusesHedge(last time.Duration) bool {
	l := s.policy.Limit
	return l.Rate.Count > 0 && l.Scope != policy.ScopeShared && last > 0 && s.ask(Step{Ask: AskTurn, At: Seconds(last)}) == refused
}

func hedgeAlwaysLaunches(s *subject) *answer {
	if !s.hedges() || hedgeNeverLaunches(s).violated {
		return nil
	}
	h := &s.policy.Hedge
	a := &answer{message: fmt.Sprintf("%s: a budget or max_extra_load bounds the hedges", s.key)}
	if h.MaxExtraLoad > 0 || s.bounds(s.refTo(Step{Ask: AskHedge})) {
		return a
	}
	return a.breaks("hedge.max_extra_load", fmt.Sprintf("%s: when attempts slow down, each launches %s: neither max_extra_load nor a budget bounds them",
		s.key, count(h.MaxHedges, "hedge", "hedges"))).with(s.example(Step{Ask: AskTrigger}))
}

// bounds reports whether a reference names a budget that may refuse.
func (s *subject) bounds(ref policy.BudgetRef) bool {
	b, known := s.budgets[ref.Name]
	return ref.Name != "" && (!known || b.Kind != policy.BudgetUnlimited)
}

// breakerNeverOpens looks for breakers whose condition no traffic can meet.
func breakerNeverOpens(s *subject) *answer {
	c := &s.policy.Circuit
	if c.Kind == "" {
		return nil
	}
	end := amplify.End(s.policy, s.within)
	a := &answer{message: fmt.Sprintf("%s: timeouts and rate let the breaker open", s.key)}
	if c.Kind == policy.CircuitSlow && end > 0 && end < c.SlowAfter {
		return a.breaks("circuit.slow_after", fmt.Sprintf("%s: the breaker never opens: an attempt has ended by %s and is slow only after %s", s.key, end, c.SlowAfter)).
			with(s.example(Step{Ask: AskSlow, At: Seconds(end)}))
	}
	if c.Kind == policy.CircuitConsecutive || end <= 0 || end > time.Hour {
		return a
	}
	span := c.Window + end
	if r := s.policy.Limit; r.Rate.Count > 0 && r.Scope != policy.ScopeShared && c.MinimumCalls <= maxPaced {
		if at := s.pace(c.MinimumCalls); at > span {
			return a.breaks("circuit.minimum_calls", fmt.Sprintf("%s: the breaker never opens: it needs %d attempts that ended within %s, and the rate starts that many only in %s",
				s.key, c.MinimumCalls, c.Window, at)).with(s.example(Step{Ask: AskPace, Attempt: c.MinimumCalls}))
		}
	}
	return a
}

// maxPaced bounds the turns that are asked for.
const maxPaced = 100_000

// breakerStaysOpen judges the first hour after a breaker opened, the longest window of the limits.
func breakerStaysOpen(s *subject) *answer {
	if s.policy.Circuit.Kind == "" {
		return nil
	}
	horizon, wait := policy.LimitsFor(s.key.Surface()).MaxWindow, opened(s.policy.Circuit).Wait(0)
	a := &answer{message: fmt.Sprintf("%s: the open breaker lets a probe through after %s", s.key, wait)}
	if wait <= horizon {
		return a
	}
	return a.breaks("circuit.cooldown", fmt.Sprintf("%s: the open breaker refuses every attempt for %s, whatever has recovered", s.key, wait)).
		with(s.example(Step{Ask: AskWait, At: Seconds(horizon)}))
}

// budgetNeverAdmits asks the full budget of retries.
func budgetNeverAdmits(s *subject) *answer {
	ref := s.policy.Retry.Budget
	b, known := s.budgets[ref.Name]
	if !known || b.Scope == policy.ScopeShared {
		return nil
	}
	a := &answer{message: fmt.Sprintf("%s: the full budget %q allows an attempt", s.key, ref.Name)}
	if admits(b, budget.KindRetry, 1, ref) == refused {
		return a.breaks("retry.budget", fmt.Sprintf("%s: no attempt can ever start: it costs %d, and budget %q holds %g", s.key, ref.Cost, ref.Name, b.Capacity)).
			with(s.example(Step{Ask: AskRetry, Attempt: 1, Name: ref.Name}))
	}
	if s.policy.Retry.MaxAttempts > 1 && admits(b, budget.KindRetry, 2, ref) == refused {
		return a.breaks("retry.budget", fmt.Sprintf("%s: no retry can ever start: it costs %d, and budget %q holds %g", s.key, ref.Cost, ref.Name, b.Burst)).
			with(s.example(Step{Ask: AskRetry, Attempt: 2, Name: ref.Name}))
	}
	return a
}

// asks lists the budgets that the policy names: that of its retries, and that of its hedges if there are any.
func (s *subject) asks() []string {
	var names []string
	if name := s.policy.Retry.Budget.Name; name != "" {
		names = append(names, name)
	}
	if name := s.policy.Hedge.Budget.Name; name != "" && s.hedges() && !slices.Contains(names, name) {
		names = append(names, name)
	}
	return names
}

// budgetNeverBinds looks for budgets that refuse nothing, whoever of their users asks.
func budgetNeverBinds(name string, b policy.Budget, users []subject) *answer {
	extra := slices.ContainsFunc(users, func(s subject) bool { return amplify.Of(s.policy, s.within, s.budgets).Attempts > 1 })
	a := &answer{message: fmt.Sprintf("budget %q: asked by %s of the document; ", name, count(len(users), "entry", "entries"))}
	if b.Kind == policy.BudgetTokenBucket {
		a.message += fmt.Sprintf("refuses attempts beyond %g per second after a burst of %g", b.RefillPerSecond, b.Capacity)
	} else {
		a.message += fmt.Sprintf("refuses retries and hedges beyond %g per call after a burst of %g", b.Ratio, b.Burst)
	}
	switch {
	case len(users) == 0:
		return a.breaks("", fmt.Sprintf("budget %q: no policy of the document asks it", name))
	case b.Kind == policy.BudgetUnlimited:
		a.breaks("", fmt.Sprintf("budget %q: an unlimited budget refuses nothing", name))
	case b.Kind == policy.BudgetRetryRatio && !extra:
		a.breaks("", fmt.Sprintf("budget %q: a retry ratio refuses only retries and hedges, and no policy that asks it makes any", name))
	default:
		return a
	}
	return a.with(users[0].example(Step{Ask: AskRetry, Attempt: 1, Name: name}))
}

func builtinTrigger(name string) bool { return slices.Contains(policy.Triggers(), name) }
