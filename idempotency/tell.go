package idempotency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// action is what an event says about a record.
type action struct {
	name   string // one of the constants below
	detail string
}

// The names of actions.
const (
	actionHit      = "hit"      // a stored result or failure was returned
	actionRecord   = "record"   // an effect was recorded as completed
	actionFailed   = "failed"   // … as failed for good
	actionReleased = "released" // … as ended without effect
	actionConflict = "conflict" // another caller's claim is live
	actionMismatch = "mismatch" // the key was used for another request
	actionFenced   = "fenced"   // a claim had been lost before it was settled
	actionUnknown  = "unknown"  // the outcome is unknown
	actionCleared  = "cleared"  // an operator removed the record
)

// told reports whether there is an observer or a journal.
func (g *Guard) told() bool { return g.options.Observer != nil || g.options.Journal != nil }

// tell sends an event to the journal, then to the observer. It returns an ErrJournal if the journal refuses.
func (g *Guard) tell(ctx context.Context, about *observe.Work, record *Record, a action) error {
	if !g.told() {
		return nil
	}
	e := &observe.Event{
		Type: observe.Idempotent, Time: time.Now(), Work: *about,
		Idempotency: &observe.IdempotencyAction{
			Tenant: record.Tenant, Operation: record.Operation, Key: record.Key, Action: a.name, Detail: a.detail,
			Fence: record.Fence, Attempts: record.Attempts,
		},
	}
	w := &e.Work
	w.IdempotencyKey, w.TenantID = cmp.Or(w.IdempotencyKey, record.Key), cmp.Or(w.TenantID, record.Tenant)
	w.Operation, w.Surface = cmp.Or(w.Operation, record.Operation), cmp.Or(w.Surface, policy.SurfaceCall)
	if w.Key == (policy.Key{}) {
		w.Key = policy.ParseKey(w.Operation)
	}
	var refusal error
	if g.options.Journal != nil {
		if err := g.options.Journal.Append(ctx, e); err != nil {
			refusal = fmt.Errorf("%w: %s: %w", ErrJournal, record.ID, err)
		}
	}
	if g.options.Observer != nil {
		g.options.Observer.Observe(ctx, e)
	}
	return refusal
}

// tellAfter sends an event of an action that has happened. If the journal refuses, that is reported and changes nothing.
func (g *Guard) tellAfter(ctx context.Context, about *observe.Work, record *Record, a action) {
	if !g.told() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	err := g.tell(ctx, about, record, a)
	if err == nil || g.options.Observer == nil {
		return
	}
	g.options.Observer.Observe(ctx, &observe.Event{
		Type: observe.Reported, Time: time.Now(), Work: *about,
		Report: &observe.Report{Reason: policy.ReasonAuditUnavailable, Detail: a.name + ": " + err.Error()},
	})
}

var errNoAdmin = errors.New("idempotency: the store does not support operations by operators")

// Resolve settles a record whose outcome is unknown, or whose claim has lapsed, on behalf of an operator. c is the claim of
// the record that the operator has seen; if the claim has changed since, or is live, Resolve returns ErrFenced. A TTL of 0
// means the guard's TTL.
func (g *Guard) Resolve(ctx context.Context, c Claim, s Settlement) error {
	admin, ok := g.store.(Admin)
	if !ok {
		return errNoAdmin
	}
	s.TTL = cmp.Or(s.TTL, g.options.TTL)
	if err := s.Validate(); err != nil {
		return err
	}
	if err := admin.Resolve(ctx, c, s); err != nil {
		return fmt.Errorf("idempotency: resolve %s: %w", c.ID, err)
	}
	name := map[State]string{Completed: actionRecord, Failed: actionFailed, Released: actionReleased}[s.State]
	g.tellAfter(ctx, &observe.Work{}, &Record{ID: c.ID, Fence: c.Fence}, action{name, "resolved by an operator"})
	return nil
}

// Clear removes a record on behalf of an operator, so that the next caller runs. c is the claim of the record that the
// operator has seen; if the claim has changed since, or is live, Clear returns ErrFenced.
func (g *Guard) Clear(ctx context.Context, c Claim) error {
	admin, ok := g.store.(Admin)
	if !ok {
		return errNoAdmin
	}
	if err := admin.Clear(ctx, c); err != nil {
		return fmt.Errorf("idempotency: clear %s: %w", c.ID, err)
	}
	g.tellAfter(ctx, &observe.Work{}, &Record{ID: c.ID, Fence: c.Fence}, action{actionCleared, "by an operator"})
	return nil
}
