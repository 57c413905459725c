package observe

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// Timeline is the story of one call: what was tried, when, how it ended and why it stopped.
type Timeline struct {
	Key        policy.Key
	PolicyID   string
	CallID     string // UUIDv7
	Start, End time.Time
	Attributes Attributes
	Attempts   []AttemptRecord // in order of launch
	FinalError error
	Reason     policy.Reason
}

type timelineJSON struct {
	Key        string        `json:"key"`
	PolicyID   string        `json:"policy_id"`
	CallID     string        `json:"call_id"`
	Start      time.Time     `json:"start"`
	End        time.Time     `json:"end"`
	Attributes Attributes    `json:"attributes"`
	Attempts   []attemptJSON `json:"attempts"`
	FinalError string        `json:"final_error"`
	Reason     policy.Reason `json:"reason"`
}

type attemptJSON struct {
	Attempt       int           `json:"attempt"`
	RetryIndex    int           `json:"retry_index"`
	HedgeIndex    int           `json:"hedge_index"`
	Start         time.Time     `json:"start"`
	End           time.Time     `json:"end"`
	Outcome       string        `json:"outcome"`
	Category      string        `json:"category,omitempty"`
	Reason        policy.Reason `json:"reason"`
	Rule          string        `json:"rule,omitempty"`
	Error         string        `json:"error"`
	Backoff       float64       `json:"backoff"` // seconds
	BudgetAllowed bool          `json:"budget_allowed"`
	BudgetReason  policy.Reason `json:"budget_reason"`
	Circuit       string        `json:"circuit,omitempty"`
	Denied        bool          `json:"denied,omitempty"`

	Attributes map[string]string `json:"attributes,omitempty"` // of the outcome
}

// MarshalJSON writes the stable form that the command line prints: durations in seconds, times in UTC. A Timeline cannot be read
// from it.
func (t Timeline) MarshalJSON() ([]byte, error) {
	out := timelineJSON{
		Key: t.Key.String(), PolicyID: t.PolicyID, CallID: t.CallID, Start: t.Start.UTC(), End: t.End.UTC(),
		Attributes: t.Attributes, Attempts: make([]attemptJSON, len(t.Attempts)), FinalError: text(t.FinalError), Reason: t.Reason,
	}
	for i, a := range t.Attempts {
		out.Attempts[i] = attemptJSON{
			Attempt: a.Attempt, RetryIndex: a.RetryIndex, HedgeIndex: a.HedgeIndex, Start: a.Start.UTC(), End: a.End.UTC(),
			Outcome: a.Outcome.Kind.String(), Category: a.Outcome.Category.String(), Reason: a.Outcome.Reason, Rule: string(a.Rule),
			Error: text(a.Err), Backoff: a.Backoff.Seconds(), BudgetAllowed: a.BudgetAllowed, BudgetReason: a.BudgetReason,
			Circuit: a.Circuit, Denied: a.Denied, Attributes: a.Outcome.Attributes,
		}
	}
	return json.Marshal(out)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Capture receives the timeline of the calls made directly under a context of [RecordTimeline]. Safe for concurrent use.
type Capture struct {
	mu       sync.Mutex
	timeline Timeline
	recorded bool
}

// Timeline returns the timeline of the call that ended last, and whether there was one.
func (c *Capture) Timeline() (Timeline, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timeline, c.recorded
}

// Record keeps a finished timeline; executors call it.
func (c *Capture) Record(t Timeline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeline, c.recorded = t, true
}

// CaptureKey is the context key under which [RecordTimeline], and nothing else, puts a [Capture]. Executors hide it from nested calls.
type CaptureKey struct{}

// RecordTimeline returns a context under which the next call's timeline is recorded. Calls nested in an operation are not
// recorded into the same capture. A nil context panics.
func RecordTimeline(ctx context.Context) (context.Context, *Capture) {
	argument.Need(ctx != nil, "observe: RecordTimeline: the context")
	c := &Capture{}
	captures.Store(true)
	return context.WithValue(ctx, CaptureKey{}, c), c
}

// captures is set by the process's first RecordTimeline. Until then no call searches its context, which may be deep.
var captures atomic.Bool

// CaptureOf returns the capture that ctx has from [RecordTimeline], or nil; executors call it.
func CaptureOf(ctx context.Context) *Capture {
	if !captures.Load() {
		return nil
	}
	c, _ := ctx.Value(CaptureKey{}).(*Capture)
	return c
}
