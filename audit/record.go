package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/internal/canonical"
	"github.com/tenetdev/tenet/internal/groupcommit"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/policy"
)

// Record records an event that the caller made, for example for another system. Record fills in a missing ID, time and schema
// version; the log always sets the place in the chain. Like every decision, the event is stored before Record returns, except
// in Buffered mode. Text is stored unchanged, but error messages are cut at 8 KiB; some sinks reject text with a NUL byte.
// Record refuses an event that could not be read back, such as one with a delay of NaN or more than 960 KiB of JSON. The
// caller must not change anything that e points to afterwards.
func (l *Log) Record(ctx context.Context, e Event) error {
	if e.Type == "" {
		return errors.New("audit: event_type is missing")
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = microseconds(e.Time)
	if e.ID == "" {
		e.ID = uuidv7.New(e.Time)
	}
	e.SchemaVersion, e.Hash = SchemaVersion, ""
	l.options.Redact.apply(&e)
	e.ExceptionMessage = shorten(e.ExceptionMessage, longestText)
	e.FinalExceptionMessage = shorten(e.FinalExceptionMessage, longestText)
	return l.record(ctx, e)
}

// record records an event from which the redacted text was removed.
func (l *Log) record(ctx context.Context, e Event) error {
	if err := e.readable(); err != nil {
		return err
	}
	if l.options.Mode == Buffered {
		err := l.push(ctx, item{event: &e})
		if err != nil {
			l.lost.Add(1)
		}
		return err
	}
	return l.wait(ctx, item{event: &e, ticket: groupcommit.NewTicket()})
}

// readable refuses an event that readers of the log could not parse, and makes the policy canonical.
func (e *Event) readable() error {
	if len(e.Policy) > 0 {
		raw, err := canonical.Marshal(e.Policy)
		if err != nil {
			return fmt.Errorf("audit: policy: want JSON: %w", err)
		}
		e.Policy = raw
	}
	var w encoder
	w.event(e)
	if len(w.b) > largestEvent {
		return fmt.Errorf("audit: the event has %d bytes as JSON, above the limit of %d; keep large content elsewhere and name it here", len(w.b), largestEvent)
	}
	_, err := ParseLine(w.b)
	return err
}

// Operation is what an operator did.
type Operation struct {
	Actor  string // who: a user, a process
	Action string // what: idempotency_resolve, job_requeue, …
	// The target; each may be empty.
	Key            policy.Key
	WorkID         string
	TenantID       string
	Operation      string // of an idempotency record
	IdempotencyKey string
	From, To       string // states
	Detail         string
	Attributes     map[string]string
}

// OperatorAction records what an operator is about to do. Call it before the action, and do not act if it fails.
func (l *Log) OperatorAction(ctx context.Context, o Operation) error {
	if o.Actor == "" || o.Action == "" {
		return errors.New("audit: operator action: Actor and Action are required")
	}
	var e Event
	e.begin(OperatorAction, time.Now())
	e.Actor, e.Action, e.Reason = raw(o.Actor), clean(o.Action), policy.ReasonOperator
	if !o.Key.IsZero() {
		e.Key, e.Surface = clean(o.Key.String()), string(o.Key.Surface())
	}
	e.WorkID, e.TenantID, e.Operation, e.IdempotencyKey = clean(o.WorkID), raw(o.TenantID), raw(o.Operation), raw(o.IdempotencyKey)
	e.From, e.To, e.Detail, e.Attributes = clean(o.From), clean(o.To), raw(o.Detail), bounded(o.Attributes, operatorBytes, raw)
	l.options.Redact.finish(&e)
	return l.record(ctx, e)
}

// PolicyChange is the replacement of a key's policy.
type PolicyChange struct {
	From   *policy.Policy // nil for a first policy
	To     *policy.Policy // required
	Actor  string         // who: a user, a process
	Detail string
}

// PolicyChanged records that a policy was replaced: the revisions of both and the whole new policy.
func (l *Log) PolicyChanged(ctx context.Context, c PolicyChange) error {
	if c.To == nil {
		return errors.New("audit: policy changed: the new policy is missing")
	}
	revision, err := c.To.Revise()
	if err != nil {
		return err
	}
	e, err := snapshot(PolicyChanged, c.To, revision)
	if err != nil { // not reached in tests: Revise has written the same JSON
		return err
	}
	e.To, e.Actor, e.Detail = revision, raw(c.Actor), raw(c.Detail)
	if c.From != nil {
		if e.From, err = c.From.Revise(); err != nil {
			return err
		}
	}
	l.options.Redact.finish(&e)
	return l.record(ctx, e)
}
