package idempotency

import (
	"context"
	"errors"
)

// Ticket is the answer to [Guard.Begin].
type Ticket struct{}

// Replayed reports that the effect has happened before: [Ticket.Result] is what is to be returned, and there is nothing to settle.
func (t *Ticket) Replayed() bool { return false }

// Result is the stored result of a replayed ticket, a copy, and whether there is one: nil, true does not occur.
func (t *Ticket) Result() (result []byte, present bool) { return nil, false }

// Record is the record as it stood after the begin.
func (t *Ticket) Record() Record { return Record{} }

// Context is what the effect runs under. It ends with the context of the begin, with the settlement, and when the claim is
// lost; its cause is then ErrFenced or the error of the renewals.
func (t *Ticket) Context() context.Context { return nil }

// Complete records that the effect has happened, with its result if present.
func (t *Ticket) Complete(ctx context.Context, result []byte, present bool) error {
	return errors.ErrUnsupported
}

// Fail records that the effect ended for good, with its error: those who come later get it and do not run.
func (t *Ticket) Fail(ctx context.Context, cause error) error { return errors.ErrUnsupported }

// Release records that the effect ended without anything worth keeping: the next one runs.
func (t *Ticket) Release(ctx context.Context, cause error) error { return errors.ErrUnsupported }

// Abandon gives the claim up without a record, because nobody knows whether the effect happened: it lapses when its lease
// ends.
func (t *Ticket) Abandon() {}
