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

// Record puts an event of the caller's own making on record, for example of another system. Missing ID, time and schema
// version are filled in; the place in the chain is always the log's. Like every decision it is stored before Record returns,
// except in Buffered mode. Text is stored as it is given, but for
// messages of errors, which end at 8 KiB; with NUL, not every sink takes it. An event that could not be read back, such as one
// with a delay of NaN, or of more than 960 KiB as JSON, is refused. What e points to must not be changed any more.
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

// readable refuses what no reader of the log could get past, and puts the policy in its canonical form.
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
	// What it was done to; each may be empty.
	Key            policy.Key
	WorkID         string
	TenantID       string
	Operation      string // of an idempotency record
	IdempotencyKey string
	From, To       string // states
	Detail         string
	Attributes     map[string]string
}

// OperatorAction puts on record what an operator did. Call it before the action: where it fails, do not act.
func (l *Log) OperatorAction(ctx context.Context, o Operation) error {
	if o.Actor == "" || o.Action == "" {
		return errors.New("audit: operator action: Actor and Action are required")
	}
	var e Event
	e.begin(OperatorAction, time.Now())
	e.Actor, e.Action, e.Reason = clean(o.Actor), clean(o.Action), policy.ReasonOperator
	if !o.Key.IsZero() {
		e.Key, e.Surface = clean(o.Key.String()), string(o.Key.Surface())
	}
	e.WorkID, e.TenantID, e.Operation, e.IdempotencyKey = clean(o.WorkID), clean(o.TenantID), clean(o.Operation), clean(o.IdempotencyKey)
	e.From, e.To, e.Detail, e.Attributes = clean(o.From), clean(o.To), clean(o.Detail), cleanAll(o.Attributes)
	return l.Record(ctx, e)
}

// PolicyChanged puts on record that a key's policy was replaced: the revisions of both and the new one in full. from may be
// nil for a first policy; to must not be.
func (l *Log) PolicyChanged(ctx context.Context, from, to *policy.Policy, actor, detail string) error {
	if to == nil {
		return errors.New("audit: policy changed: the new policy is missing")
	}
	revision, err := to.Revise()
	if err != nil {
		return err
	}
	e, err := snapshot(PolicyChanged, to, revision)
	if err != nil { // not reached in tests: Revise has written the same JSON
		return err
	}
	e.To, e.Actor, e.Detail = revision, clean(actor), clean(detail)
	if from != nil {
		if e.From, err = from.Revise(); err != nil {
			return err
		}
	}
	return l.Record(ctx, e)
}
