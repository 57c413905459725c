package pipeline

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/retry"
)

// worker is one slot of the pool: a goroutine that takes one transaction after another through its steps.
type worker struct {
	r         *run
	busy      bool // guarded by run.mu
	telling   bool // its transaction has ended, see run.tell; guarded by run.mu
	abandoned bool // guarded by run.mu
	since     time.Duration
	delivery  Delivery
	span      *span // of the transaction; guarded by run.mu; nil without an observer, and once the transaction has ended
	trace     string
	course    // of the current transaction

	// The operations of the steps are made once. Their arguments are in the worker, which is safe because steps do not hedge.
	workOp, successOp, exceptionOp retry.Operation
}

func newWorker(r *run) *worker {
	w := &worker{r: r}
	w.workOp, w.successOp, w.exceptionOp = w.doWork, w.doSuccess, w.doException
	return w
}

// loop processes transactions until there is nothing left to do.
func (w *worker) loop() {
	returned := false
	defer func() {
		if !returned { // a task has ended this goroutine before its transaction was finished
			w.replace()
		}
	}()
	for w.r.next(w) {
		w.run()
	}
	returned = true
	if w.abandoned { // set before next returned
		w.r.returned(w.delivery.Transaction.id)
	}
}

// replace ends the transaction of a goroutine that a task has ended, and continues on a new goroutine.
func (w *worker) replace() {
	err := w.failure(w.r.steps.work, 0, errGoexit)
	w.end = end{outcome: Failed, err: err, delay: w.r.redeliveryDelay(w.delivery, err)}
	if w.span != nil {
		w.span.end(w.end.outcome, w.end.err)
	}
	go w.loop()
}

var errGoexit = errors.New("the task ended its goroutine (runtime.Goexit)")

// take starts a transaction. The caller holds run.mu.
func (w *worker) take(d Delivery) {
	w.busy, w.since, w.delivery = true, time.Since(epoch), d
	w.course = course{t: d.Transaction}
}

// context returns the context of the transaction's span, if there is one. The caller holds run.mu.
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

// recoverPanic turns a panic into an error. It is deferred.
func recoverPanic(err *error) {
	if v := recover(); v != nil {
		*err = &retry.PanicError{Part: "operation", Value: v, Stack: debug.Stack()}
	}
}
