package idempotency

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/storable"
)

// Effect describes an effect that is to happen once, and how to keep its result.
type Effect[T any] struct {
	Request
	// Codec encodes the result for later callers. Nil means that the effect has no result.
	Codec Codec[T]
}

// Outcome is how an effect ended under its guard.
type Outcome[T any] struct {
	// Value is the result of the effect, from this run or from the record.
	Value T
	// Ran reports whether the effect ran now. If not, and Err is nil, Value is the stored result.
	Ran bool
	// Err is the effect's own error if it ran, else a *[RefusedError].
	Err error
	// Unrecorded is set if the effect ran but later callers do not get its outcome: a *[RecordError], or a *[ResultError] if
	// only the result was not kept. Value and Err are valid.
	Unrecorded error
}

// Result returns the outcome as a value and an error. Unrecorded is joined with the effect's own error.
func (o Outcome[T]) Result() (T, error) {
	switch {
	case o.Unrecorded == nil:
		return o.Value, o.Err
	case o.Err == nil:
		return o.Value, o.Unrecorded
	}
	return o.Value, errors.Join(o.Err, o.Unrecorded)
}

// Once runs the lifecycle of an effect under a guard, on the caller's goroutine: it claims the key, runs op, and settles the
// claim by the way in which op ended.
//
//	op ends with                                        the record becomes
//	nil                                                 completed, with the result
//	an error that is final                              failed, with the error
//	any other error                                     released: the next caller runs
//	[OutcomeUnknown], a panic, or runtime.Goexit        unknown when the claim lapses; released if the guard is ReplaySafe
//
// An error is final if it is marked Permanent or Business, or if it is not marked and [GuardOptions].Classify calls it
// NonRetryable. A panic reaches the caller.
//
// The context of op ends, with a cause, when its claim is lost. If the effect has run before, Once returns the stored result
// or a *[RefusedError] and does not run op.
func Once[T any](ctx context.Context, g *Guard, e Effect[T], op func(context.Context) (T, error)) Outcome[T] {
	return once(ctx, g, &e, op)
}

// once is Once without a copy of the effect, which is large.
func once[T any](ctx context.Context, g *Guard, e *Effect[T], op func(context.Context) (T, error)) (o Outcome[T]) {
	if op == nil { // checked before a claim would be left behind
		o.Err = errNoOperation
		return o
	}
	begun, end, err := g.begin(ctx, &e.Request)
	if err != nil {
		o.Err = err
		return o
	}
	if begun.Verdict == Replay {
		o.Value, o.Err = decode(e.Codec, &begun.Record)
		return o
	}
	t := g.ticket(ctx, &e.Request, &begun, end)
	returned := false
	defer func() {
		if !returned { // op or the codec panicked, or ended the goroutine
			_ = t.interrupted(ctx) // the panic itself reaches the caller
		}
	}()
	o.Ran = true
	var raw []byte
	var present bool
	var how ending
	var encoding Failure
	if o.Value, o.Err = op(t.ctx); o.Err != nil {
		how = g.endingOf(o.Err)
	} else if raw, present, err = encode(e.Codec, o.Value); err != nil {
		encoding = Failure{FailureResultNotEncoded, storable.Text(err.Error())}
	}
	returned = true // what follows does not run the user's code
	switch {
	case o.Err != nil:
		o.Unrecorded = t.failed(ctx, how)
	case err != nil:
		o.Unrecorded = t.completeWithout(ctx, encoding)
	default:
		o.Unrecorded = t.Complete(ctx, raw, present)
		t.recycle()
	}
	return o
}

// unknownOutcome is the mark of [OutcomeUnknown].
type unknownOutcome struct{ error }

func (e *unknownOutcome) Unwrap() error { return e.error }

// OutcomeUnknown marks an error after which it is not known whether the effect has happened, such as a recovered panic. The
// guard settles it like a panic. The error is marked Permanent too, so that no attempt follows under the same claim.
// OutcomeUnknown(nil) is nil.
func OutcomeUnknown(err error) error {
	if err == nil {
		return nil
	}
	return &unknownOutcome{classify.Permanent(err)}
}

// ending is how an effect ended that returned an error.
type ending struct {
	unknown, final bool
	failure        *Failure
}

// endingOf runs the error's methods and the guard's classifier, which may panic.
func (g *Guard) endingOf(cause error) ending {
	_, unknown := errors.AsType[*unknownOutcome](cause)
	return ending{unknown: unknown, final: !unknown && g.final(cause), failure: failureOf(cause)}
}

// failed settles the claim of an effect that returned an error.
func (t *Ticket) failed(ctx context.Context, e ending) error {
	switch {
	case e.unknown && !t.guard.options.ReplaySafe:
		t.Abandon()
		return nil
	case e.final:
		return t.fail(ctx, e.failure)
	}
	return t.release(ctx, e.failure)
}

// interrupted gives up the claim of an effect that may or may not have happened. If the guard is ReplaySafe, the effect may
// run again at once.
func (t *Ticket) interrupted(ctx context.Context) error {
	if t.guard.options.ReplaySafe {
		return t.Release(ctx, errPanicked)
	}
	t.Abandon()
	return nil
}

var errPanicked = errors.New("the effect panicked")

// final reports whether a failure is final, and so recorded.
func (g *Guard) final(err error) bool {
	switch mark, _ := classify.MarkOf(err); mark {
	case classify.MarkPermanent, classify.MarkBusiness:
		return true
	case classify.MarkAfter:
		return false
	}
	return g.options.Classify != nil && g.options.Classify.Classify(nil, err).Kind == classify.NonRetryable
}

// failureOf returns an error in the form that records keep: the type beneath its marks, and its text, made storable
// everywhere.
func failureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	named := err
	for mark, _ := classify.MarkOf(named); mark != classify.Unmarked; mark, _ = classify.MarkOf(named) {
		inner := errors.Unwrap(named)
		if inner == nil || inner.Error() != named.Error() { // not a mark: those keep the text
			break
		}
		named = inner
	}
	return &Failure{Type: storable.Text(fmt.Sprintf("%T", named)), Message: storable.Text(err.Error())}
}
