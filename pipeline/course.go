package pipeline

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// course is the progress of a worker's transaction through its steps.
//
//	process ──value──► success ──nil──► success
//	   │ spent            │ spent
//	   └────► exception ◄─┘ ──nil──► exception
//	              │ spent, or there is none
//	              └──► failed            at any point: the engine stops ──► redelivered
type course struct {
	t         *Transaction
	end       end
	processed bool
	retries   int
	attempted int // attempts of process or produce
	result    any
	cause     *TransactionError
	handled   bool // the exception handler has returned nil
	runOnce   bool // a panic leaves the outcome unknown, because the guard is not replay-safe

	attempts int // of the current step
}

// end is how a transaction ended.
type end struct {
	outcome Outcome
	err     error
	failure *TransactionError // of the step that the engine's stop interrupted
	delay   time.Duration     // before the source may deliver it again
}

// cause returns the error to pass to the source, or nil if the transaction was merely not finished.
func (e end) cause() error {
	if e.outcome == Failed {
		return e.err
	}
	return nil
}

// transact runs the steps. ctx ends when the engine stops, or when the claim on the transaction is lost.
func (w *worker) transact(ctx context.Context) end {
	if r := w.r; r.extender == nil && !w.delivery.Deadline.IsZero() && !time.Now().Before(w.delivery.Deadline) {
		return end{outcome: Redelivered, err: errTooLate} // the source has taken the delivery back already
	}
	err := w.work(ctx)
	switch {
	case err == nil:
		return end{outcome: Success}
	case ctx.Err() != nil:
		return unfinished(ctx, err)
	}
	if wait, ok := w.refused(err); ok {
		return end{outcome: Redelivered, err: err, delay: max(w.r.redeliveryDelay(w.delivery, err), wait)}
	}
	return w.handleFailure(ctx, err)
}

var errTooLate = errors.New("pipeline: the delivery was still waiting at its deadline")

func unfinished(ctx context.Context, failure *TransactionError) end {
	return end{outcome: Redelivered, err: context.Cause(ctx), failure: failure}
}

// refused reports whether a budget, a breaker or a limit refused the first attempt. That says nothing about the transaction, so it
// is given back if the source supports that, to come back no earlier than the refusal's wait.
func (w *worker) refused(err *TransactionError) (wait time.Duration, ok bool) {
	failed, ok := errors.AsType[*retry.Error](err)
	if !ok || err.Step != w.r.steps.work || failed.Attempts > 0 || w.r.nacker == nil {
		return 0, false
	}
	switch failed.Reason {
	case policy.ReasonCircuitOpen, policy.ReasonBudgetDenied, policy.ReasonConcurrencyLimited, policy.ReasonRateLimited:
		return failed.RetryAfter, true
	}
	return 0, false
}

// work runs the normal steps: process or produce, then success, under one transaction timeout.
func (w *worker) work(ctx context.Context) *TransactionError {
	s := &w.r.steps
	scope, cancel := w.r.timed(ctx, w.since)
	defer cancel()
	err := w.step(scope, s.work, s.keys.work, w.workOp)
	w.attempted = w.attempts
	if err != nil {
		return w.failed(s.work, err)
	}
	w.processed = true
	if s.success == nil && scope.Err() != context.DeadlineExceeded {
		return nil
	}
	if scope.Err() != nil { // no further step starts
		return w.failed(s.work, context.Cause(scope))
	}
	err = w.step(scope, stepSuccess, s.keys.success, w.successOp)
	switch {
	case err != nil:
		return w.failed(stepSuccess, err)
	case scope.Err() == context.DeadlineExceeded:
		return w.failed(stepSuccess, context.Cause(scope))
	}
	return nil
}

// handleFailure runs the exception step, under its own transaction timeout.
func (w *worker) handleFailure(ctx context.Context, cause *TransactionError) end {
	r := w.r
	if !r.handlesExceptions() {
		return end{outcome: Failed, err: cause, delay: r.redeliveryDelay(w.delivery, cause)}
	}
	w.cause = cause
	scope, cancel := r.timed(ctx, time.Since(epoch))
	defer cancel()
	err := w.step(scope, stepException, r.steps.keys.exception, w.exceptionOp)
	cutOff := err != nil && ctx.Err() != nil
	switch {
	case err == nil && scope.Err() == context.DeadlineExceeded:
		err = context.Cause(scope)
	case err == nil:
		return end{outcome: Exception, err: cause}
	}
	failure := w.failed(stepException, err)
	failure.Earlier = cause
	if cutOff {
		return unfinished(ctx, failure)
	}
	return end{outcome: Failed, err: failure, delay: r.redeliveryDelay(w.delivery, failure)}
}

// handlesExceptions reports whether there is an exception step.
func (r *run) handlesExceptions() bool { return r.steps.exception != nil || r.deadLetter != nil }

// timed gives a context its transaction timeout. since is when the transaction was taken, so that the wait for a guard's claim counts,
// or when the exception step began.
func (r *run) timed(ctx context.Context, since time.Duration) (context.Context, context.CancelFunc) {
	d := r.policies.loop().transaction
	if d <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, since+d-time.Since(epoch), ErrTransactionTimeout)
}

// stepOrder is the order of a delivery's steps.
var stepOrder = map[string]int{stepProcess: 0, stepProduce: 0, stepSuccess: 1, stepException: 2}

// step runs an operation under its step's policy, and counts its attempts.
func (w *worker) step(ctx context.Context, name string, key policy.Key, op retry.Operation) error {
	w.attempts = 0
	err := w.r.executor.DoStep(ctx, retry.Step{
		Key: key, ID: w.t.id, Name: name, Turn: max(w.delivery.Count, 1)*len(stepOrder) + stepOrder[name],
		Operation: w.r.steps.operation[name], TenantID: w.t.metadata[MetaTenant], CorrelationID: w.t.correlation, TraceID: w.trace,
	}, op)
	w.retries += max(w.attempts-1, 0)
	return err
}

// failed describes why a step failed.
func (w *worker) failed(step string, err error) *TransactionError {
	return w.failure(step, w.attempts, err)
}

func (w *worker) failure(step string, attempts int, err error) *TransactionError {
	return &TransactionError{ID: w.t.id, Step: step, Category: w.category(step, err), Attempts: attempts, Cause: err}
}

// category is that of the outcome by which the step's executor has decided; an error that no attempt returned has its own.
func (w *worker) category(step string, err error) classify.Category {
	failed, ok := errors.AsType[*retry.Error](err)
	mark, _ := classify.MarkOf(err)
	switch {
	case errors.Is(err, ErrTransactionTimeout), ok && failed.Reason == policy.ReasonDeadlineExceeded:
		return classify.CategoryTimeout
	case ok && failed.Outcome.Category == classify.CategoryBusiness && step == stepSuccess && w.r.kind == producer:
		return classify.CategorySystem // a producer has had its effect
	case ok && failed.Outcome.Category != classify.CategoryNone:
		return failed.Outcome.Category
	case mark == classify.MarkBusiness:
		return classify.CategoryBusiness
	}
	return classify.CategorySystem
}

// doWork runs the work and keeps its result for the success handler. Classifiers do not see the result: they judge errors,
// which tasks and sinks of all kinds have in common.
func (w *worker) doWork(ctx context.Context) (err error) {
	defer w.endAttempt(&err)
	w.attempts++
	w.result, err = w.r.steps.do(ctx, w.t)
	return err
}

func (w *worker) doSuccess(ctx context.Context) (err error) {
	defer w.endAttempt(&err)
	w.attempts++
	err = w.r.steps.success(ctx, w.t, w.result)
	if mark, _ := classify.MarkOf(err); mark == classify.MarkBusiness && w.r.kind == producer {
		return classify.After(err, 0) // a producer has had its effect; the outer mark makes this an error of the system
	}
	return err
}

func (w *worker) doException(ctx context.Context) (err error) {
	defer w.endAttempt(&err)
	w.attempts++
	if w.r.steps.exception != nil && !w.handled {
		if err := w.r.steps.exception(ctx, w.t, w.cause); err != nil {
			return err
		}
		w.handled = true
	}
	if w.r.deadLetter == nil {
		return nil
	}
	return w.r.deadLetter.Dispatch(ctx, derive(ctx, w.t, w.deadLetter()))
}

// endAttempt turns a task's panic into an error. It is deferred.
func (w *worker) endAttempt(err *error) {
	if v := recover(); v != nil {
		*err = &retry.PanicError{Part: "operation", Value: v, Stack: debug.Stack()}
		if w.runOnce {
			*err = idempotency.OutcomeUnknown(*err)
		}
	}
}
