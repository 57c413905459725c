package pipeline

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// worker is one slot of the pool: a goroutine that takes one transaction after another through its steps. Its operations
// are made once; what they work on is in the worker, which is safe because steps do not hedge.
//
//	process ──value──► success ──nil──► success
//	   │ spent            │ spent
//	   └────► exception ◄─┘ ──nil──► exception
//	              │ spent, or there is none
//	              └──► failed            at any point: the engine stops ──► redelivered
type worker struct {
	r         *run
	busy      bool // guarded by run.mu, as abandoned
	abandoned bool
	since     time.Duration // when the delivery was taken, since epoch
	delivery  Delivery
	t         *Transaction
	trace     string
	span      *span // of the transaction; guarded by run.mu; nil where nobody watches

	// Of the present transaction.
	end       end
	processed bool
	retries   int
	spent     int // attempts of the step that decided
	result    any
	cause     *TransactionError
	handled   bool // the exception handler has returned nil

	// Of the present step.
	attempts int
	late     bool // the last attempt failed when its time was over

	workOp, successOp, exceptionOp retry.Operation
}

// end is how a transaction ended.
type end struct {
	outcome Outcome
	err     error
	delay   time.Duration // of what is given back
}

// cause is what the source is told: nothing where the transaction was just not finished.
func (e end) cause() error {
	if e.outcome == Failed {
		return e.err
	}
	return nil
}

func newWorker(r *run) *worker {
	w := &worker{r: r}
	w.workOp, w.successOp, w.exceptionOp = w.doWork, w.doSuccess, w.doException
	return w
}

// loop works until there is nothing left to do.
func (w *worker) loop() {
	returned := false
	defer func() {
		if !returned { // a task has ended its goroutine, with its transaction unfinished
			w.replace()
		}
	}()
	for w.r.next(w) {
		w.run()
	}
	returned = true
}

// replace ends the transaction of a goroutine that a task has ended, and goes on with another.
func (w *worker) replace() {
	w.end = end{outcome: Failed, err: w.failure(w.r.workStep, 0, errGoexit), delay: w.r.redeliveryDelay(w.delivery)}
	if w.span != nil {
		w.span.end(w.end.outcome, w.end.err)
	}
	go w.loop()
}

var errGoexit = errors.New("the task ended its goroutine (runtime.Goexit)")

// take begins a transaction. The caller holds run.mu.
func (w *worker) take(d Delivery) {
	w.busy, w.since, w.delivery, w.t = true, time.Since(epoch), d, d.Transaction
	w.end, w.processed, w.retries, w.spent, w.result, w.cause, w.handled = end{}, false, 0, 0, nil, nil, false
	w.attempts, w.late, w.span = 0, false, nil
}

// context is that of the transaction's span, if there is one. The caller holds run.mu.
func (w *worker) context() context.Context {
	if w.span == nil {
		return context.Background()
	}
	return w.span.ctx
}

// run takes the transaction from its start to its outcome.
func (w *worker) run() {
	r := w.r
	if r.observer == nil {
		w.trace = ""
		w.end = w.guarded(r.ctx)
		return
	}
	r.flow(observe.Flow{InFlight: 1})
	s := r.begin(r.ctx, r.workOf(w.t), &observe.Trace{Parent: w.t.metadata[MetaTraceParent], State: w.t.metadata[MetaTraceState]})
	w.trace = s.work.TraceID
	r.mu.Lock()
	w.span = &s
	r.mu.Unlock()
	w.end = w.guarded(s.ctx)
	s.end(w.end.outcome, w.end.err)
}

// transact runs the steps. ctx ends when the engine stops, or the right to work on the transaction is lost.
func (w *worker) transact(ctx context.Context) end {
	if r := w.r; r.extender == nil && !w.delivery.Deadline.IsZero() && !time.Now().Before(w.delivery.Deadline) {
		return end{outcome: Redelivered, err: errTooLate} // the source has it back already
	}
	err := w.forward(ctx)
	switch {
	case err == nil:
		return end{outcome: Success}
	case ctx.Err() != nil:
		return unfinished(ctx)
	case w.refused(err):
		return end{outcome: Redelivered, err: err, delay: w.r.redeliveryDelay(w.delivery)}
	}
	return w.except(ctx, err)
}

var errTooLate = errors.New("pipeline: the delivery waited until its deadline")

func unfinished(ctx context.Context) end {
	return end{outcome: Redelivered, err: context.Cause(ctx)}
}

// refused reports whether the work was not even tried because a budget or a breaker did not let it: that says nothing
// about the transaction, which therefore goes back to a source that takes it.
func (w *worker) refused(err *TransactionError) bool {
	failed, ok := errors.AsType[*retry.Error](err)
	if !ok || err.Step != w.r.workStep || failed.Attempts > 0 || w.r.nacker == nil {
		return false
	}
	return failed.Reason == policy.ReasonCircuitOpen || failed.Reason == policy.ReasonBudgetDenied
}

// forward is the normal course: the work and its success handler, under one transaction timeout.
func (w *worker) forward(ctx context.Context) *TransactionError {
	r := w.r
	scope, cancel := r.timed(ctx)
	defer cancel()
	err := r.executor.DoStep(scope, w.step(r.keys.work, r.workStep), w.workOp)
	w.count()
	w.spent = w.attempts
	if err != nil {
		return w.failed(r.workStep, err)
	}
	w.processed = true
	if r.success == nil && scope.Err() != context.DeadlineExceeded {
		return nil
	}
	if scope.Err() != nil { // nothing is begun any more
		return w.failed(r.workStep, context.Cause(scope))
	}
	err = r.executor.DoStep(scope, w.step(r.keys.success, stepSuccess), w.successOp)
	w.count()
	switch {
	case err != nil:
		return w.failed(stepSuccess, err)
	case scope.Err() == context.DeadlineExceeded:
		return w.failed(stepSuccess, context.Cause(scope))
	}
	return nil
}

// except is what follows a failure: the exception step, under a transaction timeout of its own.
func (w *worker) except(ctx context.Context, cause *TransactionError) end {
	r := w.r
	if r.exception == nil && r.deadLetter == nil {
		return end{outcome: Failed, err: cause, delay: r.redeliveryDelay(w.delivery)}
	}
	w.cause = cause
	scope, cancel := r.timed(ctx)
	defer cancel()
	err := r.executor.DoStep(scope, w.step(r.keys.exception, stepException), w.exceptionOp)
	w.count()
	switch {
	case err != nil && ctx.Err() != nil:
		return unfinished(ctx)
	case err == nil && scope.Err() == context.DeadlineExceeded:
		err = context.Cause(scope)
	case err == nil:
		return end{outcome: Exception, err: cause}
	}
	failure := w.failed(stepException, err)
	failure.Earlier = cause
	return end{outcome: Failed, err: failure, delay: r.redeliveryDelay(w.delivery)}
}

// timed gives a context its transaction timeout.
func (r *run) timed(ctx context.Context) (context.Context, context.CancelFunc) {
	d := r.policies.loop().transaction
	if d <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, d, ErrTransactionTimeout)
}

// turns is the order of a delivery's steps.
var turns = map[string]int{stepProcess: 0, stepProduce: 0, stepSuccess: 1, stepException: 2}

func (w *worker) step(key policy.Key, name string) retry.Step {
	w.attempts, w.late = 0, false
	return retry.Step{
		Key: key, ID: w.t.id, Name: name, Turn: max(w.delivery.Count, 1)*len(turns) + turns[name], Operation: w.r.operation[name],
		TenantID: w.t.metadata[MetaTenant], CorrelationID: w.t.correlation, TraceID: w.trace,
	}
}

// count adds the attempts of a step that has ended.
func (w *worker) count() { w.retries += max(w.attempts-1, 0) }

// failed says why a step failed.
func (w *worker) failed(step string, err error) *TransactionError {
	return w.failure(step, w.attempts, err)
}

func (w *worker) failure(step string, attempts int, err error) *TransactionError {
	return &TransactionError{ID: w.t.id, Step: step, Category: w.category(err), Attempts: attempts, Cause: err}
}

func (w *worker) category(err error) classify.Category {
	if mark, _ := classify.MarkOf(err); mark == classify.MarkBusiness {
		return classify.CategoryBusiness
	}
	failed, ok := errors.AsType[*retry.Error](err)
	if w.late || errors.Is(err, ErrTransactionTimeout) || ok && failed.Reason == policy.ReasonDeadlineExceeded {
		return classify.CategoryTimeout
	}
	return classify.CategorySystem
}

// doWork keeps the result for the success handler. Classifiers do not see it: they judge errors, which is what tasks and
// sinks of all kinds have in common.
func (w *worker) doWork(ctx context.Context) (err error) {
	defer w.ended(ctx, &err)
	w.attempts++
	w.result, err = w.r.work(ctx, w.t)
	return err
}

func (w *worker) doSuccess(ctx context.Context) (err error) {
	defer w.ended(ctx, &err)
	w.attempts++
	err = w.r.success.HandleSuccess(ctx, w.t, w.result)
	if mark, _ := classify.MarkOf(err); mark == classify.MarkBusiness && w.r.kind == producer {
		return classify.After(err, 0) // after the effect there is no business to refuse: the outer mark counts
	}
	return err
}

func (w *worker) doException(ctx context.Context) (err error) {
	defer w.ended(ctx, &err)
	w.attempts++
	if w.r.exception != nil && !w.handled {
		if err := w.r.exception.HandleException(ctx, w.t, w.cause); err != nil {
			return err
		}
		w.handled = true
	}
	if w.r.deadLetter == nil {
		return nil
	}
	return w.r.deadLetter.Dispatch(ctx, handOn(ctx, w.t, w.letter()))
}

// ended makes an error of a task's panic, and notes whether an attempt that failed was out of time. It is deferred.
func (w *worker) ended(ctx context.Context, err *error) {
	if v := recover(); v != nil {
		*err = &retry.PanicError{Part: "operation", Value: v, Stack: debug.Stack()}
	}
	w.late = *err != nil && ctx.Err() == context.DeadlineExceeded
}

// caught makes an error of a panic. It is deferred.
func caught(err *error) {
	if v := recover(); v != nil {
		*err = &retry.PanicError{Part: "operation", Value: v, Stack: debug.Stack()}
	}
}

// letter is the transaction as the dead-letter sink gets it.
func (w *worker) letter() *Transaction {
	return w.t.With(WithAttempts(w.t.attempts+w.spent), WithMetadata(map[string]string{
		MetaError: oneLine(w.cause.Cause.Error()), MetaCategory: w.cause.Category.String(), MetaStep: w.cause.Step,
		MetaConsumer: w.r.name,
	}))
}

const longestError = 1000

// oneLine makes a text fit for any connector's headers: the first line, without control characters, valid and not long.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return -1
		}
		return c
	}, s[:min(len(s), longestError)])
	return strings.ToValidUTF8(s, "")
}

// reasonOf says in the terms of records why a transaction ended.
func reasonOf(outcome Outcome, err error) policy.Reason {
	failed, ok := errors.AsType[*retry.Error](err)
	switch {
	case err == nil:
		return policy.ReasonSuccess
	case outcome == Redelivered && errors.Is(err, ErrShutdown):
		return policy.ReasonShutdown
	case ok:
		return failed.Reason
	case loopTimeout(err) && outcome == Redelivered:
		return policy.ReasonShutdown
	case loopTimeout(err):
		return policy.ReasonOverallTimeout
	case errors.Is(err, context.DeadlineExceeded):
		return policy.ReasonDeadlineExceeded
	case errors.Is(err, context.Canceled):
		return policy.ReasonCanceled
	}
	return policy.ReasonAborted
}

func loopTimeout(err error) bool {
	_, consumers := errors.AsType[*ConsumerLoopTimeoutError](err)
	_, producers := errors.AsType[*ProducerLoopTimeoutError](err)
	return consumers || producers
}
