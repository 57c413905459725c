package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
)

// ErrNoWork is returned by [Explain] if the log holds no events of the given call, job or transaction.
var ErrNoWork = errors.New("audit: the log has no event of this work")

// Story is the record of one piece of work.
type Story struct {
	WorkID        string  `json:"work_id"`
	Surface       string  `json:"surface"`
	Key           string  `json:"key"`
	Category      string  `json:"retry_category,omitempty"`
	Operation     string  `json:"operation,omitempty"`
	TenantID      string  `json:"tenant_id,omitempty"`
	CorrelationID string  `json:"correlation_id,omitempty"`
	TraceID       string  `json:"trace_id,omitempty"`
	PolicyID      string  `json:"policy_id,omitempty"`
	Revision      string  `json:"policy_revision,omitempty"`
	Result        string  `json:"result"`   // done, stop or unfinished
	Reason        string  `json:"reason"`   // of the last decision
	Attempts      int     `json:"attempts"` // for a transaction, in all its steps and deliveries; for a job, in all its runs
	Waiting       Seconds `json:"waiting_seconds"`
	Steps         []Step  `json:"steps"`
	Unreadable    int     `json:"unreadable,omitempty"` // lines of the log that are not events; some may belong to this work
}

// Step is one event of a piece of work.
type Step struct {
	Time    time.Time `json:"timestamp"`
	EventID string    `json:"event_id"`
	Type    Type      `json:"event_type"`
	Key     string    `json:"key,omitempty"` // each step of a transaction has its own key and policy
	Attempt int       `json:"attempt_number,omitempty"`
	Hedge   int       `json:"hedge_index,omitempty"`
	Outcome string    `json:"outcome_kind,omitempty"`
	Class   string    `json:"outcome_class,omitempty"`
	Why     string    `json:"outcome_reason,omitempty"`
	Error   string    `json:"error,omitempty"`
	// Decision and Reason say what followed; Wait is the delay before the next attempt.
	Decision string  `json:"decision,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	Wait     Seconds `json:"wait_seconds,omitempty"`
	// Fields are the policy fields that determined the decision, with their values; those of the classification come first.
	Fields []Field `json:"fields,omitempty"`
	// Detail is the action on an idempotency key, a change of state, or the event's own detail.
	Detail string `json:"detail,omitempty"`

	Revision string     `json:"policy_revision,omitempty"`
	Rule     string     `json:"matched_rule,omitempty"` // of the classification
	Facts    *StepFacts `json:"facts,omitempty"`
	Maximum  int        `json:"max_attempts,omitempty"` // in effect
	// Range bounds the wait under the recorded policy. Now is what other policies decide; see [ExplainUnder].
	Range *Range       `json:"wait_range,omitempty"`
	Now   *Alternative `json:"now,omitempty"`
}

// Field is a policy field that took part in a decision.
type Field struct {
	Path  string `json:"path"`            // as in documents, for example retry.max_attempts; max_attempts is the job's own maximum
	Value string `json:"value,omitempty"` // "" if the log does not hold the policy
	// Source is the place of the field in a document. [Explain] leaves it empty, because it does not have the document.
	Source string `json:"source,omitempty"`
}

// Explain returns the events of a call, job or transaction in order, and for each decision the policy fields that determined
// it.
func Explain(ctx context.Context, s Source, workID string) (*Story, error) {
	return ExplainUnder(ctx, s, workID, nil)
}

// scanWork reads a whole log for the events of a piece of work.
func scanWork(ctx context.Context, s Source, workID string) (w workRecord, err error) {
	quoted := appendString([]byte(`"work_id":`), workID)
	w.snapshots = map[string]Event{}
	seen := map[string]bool{}
	err = s.Read(ctx, "", func(_ string, line []byte) error {
		mine, snapshot := bytes.Contains(line, quoted), bytes.Contains(line, []byte(`"policy":{`))
		if !mine && !snapshot {
			if CheckLine(line) != nil {
				w.unreadable++
			}
			return nil
		}
		e, err := ParseLine(line)
		if err != nil {
			w.unreadable++
			return nil //nolint:nilerr // it is counted; Verify reports it
		}
		if e.Policy != nil {
			w.snapshots[e.PolicyRevision] = e
		}
		if e.WorkID == workID && !seen[e.ID] {
			seen[e.ID] = true
			w.events = append(w.events, e)
		}
		return nil
	})
	return w, err
}

// inOrder sorts the events of a piece of work by WorkSeq. Events without one, such as the actions of guards, are inserted by
// their time.
func inOrder(events []Event) []Event {
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.WorkSeq, b.WorkSeq), a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
	})
	n := 0
	for n < len(events) && events[n].WorkSeq == 0 {
		n++
	}
	unnumbered, list := events[:n], make([]Event, 0, len(events))
	for _, e := range events[n:] {
		for len(unnumbered) > 0 && unnumbered[0].Time.Before(e.Time) {
			list, unnumbered = append(list, unnumbered[0]), unnumbered[1:]
		}
		list = append(list, e)
	}
	return append(list, unnumbered...)
}

func storyOf(events []Event, policies map[string]*policy.Policy) *Story {
	first := &events[0]
	s := &Story{WorkID: first.WorkID, Result: "unfinished", Steps: []Step{}}
	var runs attemptCount
	before := 0   // attempts of a transaction's earlier steps
	decided := "" // the surface of the last decision
	for i := range events {
		e := &events[i]
		s.Surface, s.Key, s.Category = cmp.Or(s.Surface, e.Surface), cmp.Or(s.Key, e.Key), cmp.Or(s.Category, e.Category)
		s.Operation, s.TenantID = cmp.Or(s.Operation, e.Operation), cmp.Or(s.TenantID, e.TenantID)
		s.CorrelationID, s.TraceID = cmp.Or(s.CorrelationID, e.CorrelationID), cmp.Or(s.TraceID, e.TraceID)
		s.PolicyID, s.Revision = cmp.Or(e.PolicyID, s.PolicyID), cmp.Or(e.PolicyRevision, s.Revision)
		if runs.add(e); e.Surface == string(policy.SurfaceJob) || e.Type == JobTransition {
			s.Attempts = max(s.Attempts, runs.total())
		}
		if isDecision(e.Type) {
			s.Reason, decided = string(e.Reason), e.Surface
			if e.Surface == string(policy.SurfaceStep) && s.Result != "unfinished" {
				before = s.Attempts
			}
			s.Attempts = max(s.Attempts, before+e.StateNumber, before+e.TotalAttempts)
			s.Waiting.add(e.DelayNS.Duration())
			s.Result = "unfinished"
			if e.Decision != decision.Retry.String() {
				s.Result = e.Decision
			}
		}
		if e.Type == JobTransition { // what its handler, an operator or the queue made of the decision, or of a lost lease
			result := cmp.Or(e.ending(), "unfinished")
			if result != s.Result && (result == decision.Stop.String() || decided != string(policy.SurfaceStep)) {
				s.Result, s.Reason = result, string(e.Reason)
			}
		}
		if e.Type == Idempotency && e.Action == hit && e.Detail == "" { // nothing ran, so there is no other decision
			s.Result, s.Reason = decision.Done.String(), string(policy.ReasonIdempotencyHit)
		}
		s.Steps = append(s.Steps, stepOf(e, policies[e.PolicyRevision]))
	}
	return s
}

func stepOf(e *Event, p *policy.Policy) Step {
	s := Step{
		Time: e.Time, EventID: e.ID, Type: e.Type, Key: e.Key, Attempt: e.Attempt, Hedge: e.HedgeIndex, Outcome: e.OutcomeKind,
		Class: string(e.OutcomeClass), Why: string(e.OutcomeReason), Error: cmp.Or(e.ExceptionMessage, e.FinalExceptionMessage),
		Decision: e.Decision, Reason: string(e.Reason), Wait: Seconds(e.DelayNS), Detail: e.Detail,
	}
	switch e.Type {
	case Idempotency:
		s.Detail = join(e.Action, e.IdempotencyKey, e.Detail)
	case OperatorAction:
		s.Detail = join(e.Action, "by "+e.Actor, e.Detail)
	case JobTransition, CircuitChanged:
		s.Detail = join(e.From+" → "+e.To, string(e.Reason), e.Detail)
	}
	for _, path := range deciding(e, p) {
		value := fieldValue(p, path)
		if path == ownMaximum {
			value = strconv.Itoa(e.StateLimit)
		}
		s.Fields = append(s.Fields, Field{Path: path, Value: value})
	}
	s.ground(e, p)
	return s
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// ownMaximum is the path of a job's own maximum of attempts.
const ownMaximum = "max_attempts"

// deciding lists the policy fields that determined a classification and a decision.
func deciding(e *Event, p *policy.Policy) (paths []string) {
	add := func(path string) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	switch e.MatchedRule {
	case decision.RuleAbortOn:
		add("retry.abort_on")
	case decision.RuleRetryOn:
		add("retry.retry_on")
	case decision.RuleClassifier:
		add("retry.classifier")
	}
	if e.OutcomeReason == policy.ReasonAttemptTimeout {
		add("retry.timeout")
	}
	if len(e.Group) > 1 {
		add("hedge.max_hedges")
	}
	reason := e.Reason
	if e.Type == Hedge && e.Denied {
		reason = e.OutcomeReason
	}
	switch reason {
	case policy.ReasonRetry:
		for _, path := range ofDelay(e, p) {
			add(path)
		}
	case policy.ReasonAttemptsExhausted:
		if p != nil && e.StateLimit > 0 && e.StateLimit != p.Retry.MaxAttempts {
			add(ownMaximum)
		} else {
			add("retry.max_attempts")
		}
	case policy.ReasonPushbackTooLong:
		add("retry.max_pushback")
	case policy.ReasonOverallTimeout:
		add("retry.overall_timeout")
	case policy.ReasonBudgetDenied, policy.ReasonBudgetNotFound:
		if e.Type == Hedge && p != nil && p.Hedge.Budget.Name != "" {
			add("hedge.budget.name")
		} else {
			add("retry.budget.name")
		}
	case policy.ReasonMaxExtraLoad:
		add("hedge.max_extra_load")
	case policy.ReasonCircuitOpen, policy.ReasonHalfOpen:
		add(ofCircuit(p))
	case policy.ReasonConcurrencyLimited:
		add("limit.concurrency")
	case policy.ReasonRateLimited:
		add("limit.rate.count")
	}
	return paths
}

// ofDelay lists the fields that determined a delay. For a delay that the other side asked for, that is only its upper bound;
// for one that user code computed, there is none.
func ofDelay(e *Event, p *policy.Policy) []string {
	switch {
	case e.External:
		return nil
	case e.PushbackNS > 0 && e.PushbackNS >= e.DelayNS:
		return []string{"retry.max_pushback"}
	case p == nil:
		return []string{"retry.backoff"}
	}
	unjittered := p.Retry
	unjittered.Jitter = policy.JitterNone
	paths := []string{"retry.backoff"}
	if d := decision.Delay(&unjittered, 0, max(e.stateAttempt(), 1)-1); unjittered.MaxBackoff > 0 && d >= unjittered.MaxBackoff {
		paths = []string{"retry.backoff_cap"}
	} else if e.StateNumber > 1 && unjittered.BackoffMultiplier > 1 {
		paths = append(paths, "retry.backoff_multiplier")
	}
	if p.Retry.Jitter != policy.JitterNone {
		paths = append(paths, "retry.jitter")
	}
	return paths
}

func ofCircuit(p *policy.Policy) string {
	if p == nil {
		return "circuit.kind"
	}
	switch p.Circuit.Kind {
	case policy.CircuitConsecutive:
		return "circuit.failures"
	case policy.CircuitRate:
		return "circuit.failure_rate"
	case policy.CircuitSlow:
		return "circuit.slow_rate"
	}
	return "circuit.kind"
}

// fieldValue returns the value of a field as documents write it.
func fieldValue(p *policy.Policy, path string) string {
	if p == nil {
		return ""
	}
	field, ok := fields.At(reflect.ValueOf(*p), path)
	if !ok {
		return ""
	}
	return fields.Text(field)
}
