package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/hedge"
	"github.com/tenetdev/tenet/internal/virtual"
	"github.com/tenetdev/tenet/limit"
	"github.com/tenetdev/tenet/policy"
)

// Counterexample is a list of questions to the production core whose answers show a violation. Package decision and fresh budgets,
// breakers, limits and triggers answer.
type Counterexample struct {
	// Key of the policy asked about.
	Key   string `json:"key,omitempty"`
	Steps []Step `json:"steps"`

	policy  *policy.Policy
	within  time.Duration
	budgets map[string]policy.Budget
}

// Seconds is a duration that JSON holds as a number of seconds.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// Step is one question with its answer.
type Step struct {
	// Ask is the question: one of the constants.
	Ask Ask `json:"ask"`
	// Attempt is the number of the attempt asked about, from 1.
	Attempt int `json:"attempt,omitempty"`
	// At is the time since the work, or the first attempt, began.
	At Seconds `json:"at"`
	// Name is that of the budget or class asked about.
	Name string `json:"name,omitempty"`
	// Answer of the core.
	Answer string `json:"answer"`
}

// String returns the question and its answer on one line.
func (s Step) String() string {
	text := string(s.Ask)
	if s.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	if s.Name != "" {
		text += ", " + s.Name
	}
	if s.At > 0 {
		text += fmt.Sprintf(", at %s", time.Duration(s.At))
	}
	return text + ": " + s.Answer
}

// Ask is a kind of question.
type Ask string

// The kinds of questions.
const (
	AskNext    Ask = "decision.Next"                  // what follows the attempt if it fails at At and the delay is the shortest possible
	AskLongest Ask = "decision.Next longest"          // what follows the attempt if it fails at At and the delay is the longest possible
	AskTimeout Ask = "decision.Judge"                 // what the attempt's result means at At, when its work has ended
	AskPushed  Ask = "decision.Next pushback"         // what follows the attempt if the server asks for a wait of At
	AskBounds  Ask = "decision.Bounds"                // the shortest and longest delay after the attempt
	AskRetry   Ask = "budget retry"                   // whether the full budget allows the attempt: the first, or a retry
	AskHedge   Ask = "budget hedge"                   // whether the full budget allows a hedge
	AskPaid    Ask = "budget hedge after the attempt" // whether a hedge is allowed At after the attempt took its tokens from the full budget
	AskTrigger Ask = "hedge.Trigger"                  // when the hedge is launched
	AskEnter   Ask = "limit.TryEnter"                 // whether the attempt gets a place while the ones before it hold theirs
	AskTurn    Ask = "limit.Turn"                     // whether the rate lets the attempt start at At, without waiting
	AskPace    Ask = "limit.Turn in order"            // when the rate lets the attempt start if every attempt waits for its turn
	AskSlow    Ask = "circuit slow"                   // the breaker's state after as many attempts as it needs, each of which took At
	AskWait    Ask = "circuit.Wait"                   // how long a breaker that opened at 0 still refuses at At
	AskClass   Ask = "decision.Judge class"           // what an error of the class means
)

// Replay asks the questions again and returns an error if an answer differs.
func (c *Counterexample) Replay() error {
	s := &subject{policy: c.policy, within: c.within, budgets: c.budgets}
	for i, step := range c.Steps {
		if again := s.ask(step); again != step.Answer {
			return fmt.Errorf("prove: step %d, %s: the core answers %q, not %q", i+1, step.Ask, again, step.Answer)
		}
	}
	return nil
}

// example asks the questions of a counterexample.
func (s *subject) example(steps ...Step) *Counterexample {
	for i := range steps {
		steps[i].Answer = s.ask(steps[i])
	}
	return &Counterexample{Key: s.key.String(), Steps: steps, policy: s.policy, within: s.within, budgets: s.budgets}
}

const (
	allowed = "allowed"
	refused = "refused"
)

// ask puts one question to the core.
func (s *subject) ask(q Step) string {
	at, r := time.Duration(q.At), &s.policy.Retry
	switch q.Ask {
	case AskNext, AskLongest:
		state := decision.State{Surface: s.policy.Key.Surface(), Attempt: q.Attempt, Left: amplify.Left(s.within, at), LeftReason: policy.ReasonOverallTimeout, External: true}
		shortest, longest := decision.Bounds(r, q.Attempt-1)
		if state.Delay = shortest; q.Ask == AskLongest {
			state.Delay = longest
		}
		v := decision.Next(r, &state, &classify.Outcome{Kind: classify.Retryable, Category: classify.CategorySystem})
		if v.Action == decision.Retry {
			return "retry after " + v.Delay.String()
		}
		return "stop: " + string(v.Reason)
	case AskPushed:
		v := decision.Next(r, &decision.State{Surface: s.policy.Key.Surface(), Attempt: q.Attempt, Left: decision.Unbounded},
			&classify.Outcome{Kind: classify.Retryable, Pushback: at})
		return v.Action.String() + " after " + v.Delay.String()
	case AskTimeout:
		ended := policy.Reason("")
		if s.within > 0 && at >= s.within {
			ended = policy.ReasonOverallTimeout
		}
		o, _ := decision.Judge(r, &decision.Facts{Failed: true, TimedOut: ended == "", Ended: ended})
		return o.Kind.String() + ": " + string(o.Reason)
	case AskBounds:
		shortest, longest := decision.Bounds(r, q.Attempt-1)
		return shortest.String() + " to " + longest.String()
	case AskClass:
		o, rule := judge(r, policy.Class(q.Name))
		return o.Kind.String() + " by " + string(rule)
	}
	return s.askMechanism(q, at)
}

func (s *subject) askMechanism(q Step, at time.Duration) string {
	switch q.Ask {
	case AskRetry, AskHedge:
		kind := budget.KindRetry
		if q.Ask == AskHedge {
			kind = budget.KindHedge
		}
		return admits(s.budgets[q.Name], kind, q.Attempt, s.refTo(q))
	case AskPaid:
		return yes(s.pays(q.Name, at))
	case AskTrigger:
		wait, _ := hedge.Fixed.Delay(s.policy.Hedge, nil)
		return "after " + wait.String()
	case AskEnter:
		l := limit.New(s.policy.Limit, 0)
		for range q.Attempt - 1 {
			l.TryEnter()
		}
		return yes(l.TryEnter())
	case AskTurn:
		l := limit.New(s.policy.Limit, 0)
		_, _, _ = l.Turn(0, 0)
		_, _, ok := l.Turn(at, 0)
		return yes(ok)
	case AskPace:
		return "at " + s.pace(q.Attempt).String()
	case AskSlow:
		b := circuit.New(s.policy.Circuit)
		for range min(s.policy.Circuit.MinimumCalls, maxAsked) {
			t, _, _ := b.Acquire(0, false)
			b.Done(t, circuit.Failure, at, 0)
		}
		return b.State(0).String()
	case AskWait:
		return "refuses for another " + opened(s.policy.Circuit).Wait(at).String()
	}
	return ""
}

// maxAsked bounds how often a mechanism is asked for one answer.
const maxAsked = 1000

// refTo returns the policy's reference to a budget.
func (s *subject) refTo(q Step) policy.BudgetRef {
	if q.Ask == AskHedge && s.policy.Hedge.Budget.Name != "" {
		return s.policy.Hedge.Budget
	}
	return s.policy.Retry.Budget
}

// admits asks a full budget for one attempt.
func admits(b policy.Budget, kind budget.AttemptKind, attempt int, ref policy.BudgetRef) string {
	full, err := budget.New(b)
	if err != nil {
		return refused // not reached: the document's budgets are valid
	}
	return yes(full.AllowAttempt(context.Background(), policy.Key{}, attempt-1, kind, ref).Allowed)
}

// pays reports whether the full bucket, from which an attempt has paid at 0, pays for the hedge that joins it at the given time.
func (s *subject) pays(name string, at time.Duration) bool {
	now := &clock{}
	r := budget.NewRegistryIn(now)
	if r.Apply(map[string]policy.Budget{name: s.budgets[name]}) != nil {
		return false // not reached: the document's budgets are valid
	}
	full, _ := r.Get(name)
	full.AllowAttempt(context.Background(), policy.Key{}, 0, budget.KindRetry, s.policy.Retry.Budget)
	now.at = at
	return full.AllowAttempt(context.Background(), policy.Key{}, 1, budget.KindHedge, s.refTo(Step{Ask: AskHedge})).Allowed
}

// clock is a world in which only the time is asked for.
type clock struct {
	virtual.World
	at time.Duration
}

func (c *clock) Now() time.Duration { return c.at }

func yes(ok bool) string {
	if ok {
		return allowed
	}
	return refused
}

// pace returns when the rate limit lets the nth attempt start if all are there at once.
func (s *subject) pace(n int) (at time.Duration) {
	l := limit.New(s.policy.Limit, 0)
	for range n {
		_, at, _ = l.Turn(0, policy.Unbounded)
	}
	return at
}

// opened returns a breaker that failures have opened at 0.
func opened(c policy.Circuit) *circuit.Breaker {
	c.Kind, c.Failures = policy.CircuitConsecutive, 1 // only the cooldown matters, which is the same for every kind
	b := circuit.New(c)
	t, _, _ := b.Acquire(0, false)
	b.Done(t, circuit.Failure, 0, 0)
	return b
}
