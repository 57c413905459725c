package decision

import (
	"time"

	"github.com/tenetdev/tenet/classify"
)

// Group folds the attempts of one hedged group, the primary and its hedges, into one outcome.
//
//	running ──success──────────────────────────► decided
//	running ──non_retryable, abort─► (cancel) ─► decided
//	                                 (else) ───► failing: no new hedges; a success can still win
//	failing, running ──no attempt left running─► decided
//
// The precedence is success, then non_retryable, abort, retryable; among equals the first to end decides. The zero value
// is an empty group. Not safe for concurrent use: one coordinator owns it.
type Group struct {
	// CancelOnFirstTerminal ends the group with its first non-retryable or aborted attempt.
	CancelOnFirstTerminal bool

	running  int
	ended    int
	deciding int // launch that decides so far
	best     classify.Outcome
	pushback time.Duration // the longest asked for by any attempt
	decided  bool
}

// Launch counts a started attempt.
func (g *Group) Launch() { g.running++ }

// End folds in an ended attempt and reports whether the group is decided. launch is the attempt's number in the work's
// launch order. Attempts that end after the group was decided change nothing.
func (g *Group) End(launch int, o classify.Outcome) bool {
	if g.decided {
		return true
	}
	g.running--
	g.ended++
	g.pushback = max(g.pushback, o.Pushback)
	if g.ended == 1 || precedence(o.Kind) > precedence(g.best.Kind) {
		g.best, g.deciding = o, launch
	}
	terminal := o.Kind == classify.NonRetryable || o.Kind == classify.Abort
	g.decided = o.Kind == classify.Success || terminal && g.CancelOnFirstTerminal || g.running == 0
	return g.decided
}

// MayHedge reports whether another hedge makes sense: nothing terminal has happened and something still runs.
func (g *Group) MayHedge() bool {
	return g.running > 0 && (g.ended == 0 || g.best.Kind == classify.Retryable)
}

// Outcome is the group's outcome and the launch that decided it. A retryable outcome carries the longest pushback that
// any attempt was asked for.
func (g *Group) Outcome() (classify.Outcome, int) {
	o := g.best
	if o.Kind == classify.Retryable {
		o.Pushback = g.pushback
	}
	return o, g.deciding
}

func precedence(k classify.Kind) int {
	switch k {
	case classify.Success:
		return 3
	case classify.NonRetryable:
		return 2
	case classify.Abort:
		return 1
	}
	return 0
}
