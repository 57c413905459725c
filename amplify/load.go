package amplify

import (
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// Load is what one call can become.
type Load struct {
	// Attempts is how many attempts a call makes at most, hedges included.
	Attempts int
	// Groups is how many of them are not hedges.
	Groups int
	// Budgeted is how many attempts a call makes at most on average in the long run, over all calls that share its budgets.
	Budgeted float64
}

// Of returns the load of a normalised policy whose work ends after within, or never if within is 0. Budgets are those of the
// policy's document.
func Of(p *policy.Policy, within time.Duration, budgets map[string]policy.Budget) Load {
	return Work{p, within}.load(func(ref policy.BudgetRef) (float64, bool) { return share(ref, budgets) }, p.Hedge.MaxExtraLoad)
}

// Work is the calls of a key: their normalised policy, and the time after which a call ends, or 0 for never.
type Work struct {
	Policy *policy.Policy
	Within time.Duration
}

// shareOf says how many extra attempts per call a budget allows in the long run, and whether it bounds them at all.
type shareOf func(policy.BudgetRef) (extra float64, bounded bool)

// load returns what a call can become under the shares of its budgets, and with at most that many hedges per call, 0 for any number.
func (w Work) load(of shareOf, most float64) Load {
	groups := Reachable(&w.Policy.Retry, w.Policy.Key.Surface(), w.Within)
	hedges := 0
	if w.Policy.Hedge.Enabled && !Late(w.Policy, w.Within) {
		hedges = w.Policy.Hedge.MaxHedges
	}
	l := Load{Attempts: groups * (1 + hedges), Groups: groups}
	l.Budgeted = l.budgeted(w.Policy, of, most)
	return l
}

// budgeted is the bound of the attempts that budgets leave in the long run.
func (l Load) budgeted(p *policy.Policy, of shareOf, most float64) float64 {
	retries, hedges := float64(l.Groups-1), float64(l.Attempts/l.Groups-1)
	ref := p.Hedge.Budget
	if ref.Name == "" {
		ref = p.Retry.Budget
	}
	ofRetries, bounded := of(p.Retry.Budget)
	if bounded {
		retries = min(retries, ofRetries)
	}
	hedged := (1 + retries) * hedges
	ofHedges, hedgesBounded := of(ref)
	if hedgesBounded {
		hedged = min(hedged, ofHedges)
	}
	if most > 0 {
		hedged = min(hedged, most)
	}
	extra := retries + hedged
	if bounded && ref.Name == p.Retry.Budget.Name { // retries and hedges take from the same budget, perhaps at different costs
		extra = min(extra, max(ofRetries, ofHedges))
	}
	return 1 + extra
}

// Reachable returns how many attempts (groups when hedging) of a piece of work can start at all if it ends after within, 0 for
// never: all attempts fail at once and every delay is the shortest possible.
func Reachable(r *policy.Retry, s policy.Surface, within time.Duration) int {
	elapsed := time.Duration(0)
	for n := 1; ; n++ {
		v, delay := Earliest(r, decision.State{Surface: s, Attempt: n, Left: Left(within, elapsed), LeftReason: policy.ReasonOverallTimeout})
		if v.Action != decision.Retry {
			return n
		}
		elapsed += delay
		if within <= 0 {
			return r.MaxAttempts
		}
	}
}

// Earliest asks what follows a failed attempt if the delay is the shortest possible, which it returns too.
func Earliest(r *policy.Retry, s decision.State) (decision.Verdict, time.Duration) {
	s.External = true
	s.Delay, _ = decision.Bounds(r, s.Attempt-1)
	return decision.Next(r, &s, &classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem}), s.Delay
}

// Left is the time left of within, or decision.Unbounded if within is 0.
func Left(within, elapsed time.Duration) time.Duration {
	if within <= 0 {
		return decision.Unbounded
	}
	return within - elapsed
}

// End returns how long an attempt runs at most if it honours its context: its own timeout or the end of the work, whichever
// comes first, and 0 if nothing bounds it.
func End(p *policy.Policy, within time.Duration) time.Duration {
	timeout := p.Retry.TimeoutPerAttempt
	if within > 0 && (timeout <= 0 || within < timeout) {
		return within
	}
	return max(timeout, 0)
}

// Late reports whether every attempt has ended by the time at which a hedge would be launched.
func Late(p *policy.Policy, within time.Duration) bool {
	end := End(p, within)
	return p.Hedge.TriggerName == policy.TriggerFixed && end > 0 && p.Hedge.HedgeDelay > end
}

// share is the number of extra attempts per call that a budget allows in the long run.
func share(ref policy.BudgetRef, budgets map[string]policy.Budget) (extra float64, bounded bool) {
	b, known := budgets[ref.Name]
	if !known || b.Kind != policy.BudgetRetryRatio {
		return 0, false
	}
	return b.Ratio / float64(max(ref.Cost, 1)), true
}
