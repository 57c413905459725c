package pipeline

import (
	"context"
	"fmt"
	"iter"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// Producer writes values to a sink. Its methods may be called from any goroutine.
type Producer[In any] struct {
	*engine
	transaction func(in In) (*Transaction, error)
}

// NewProducer makes a producer of values of type In. The task prepares what is dispatched and has the handlers, see [Task].
// NewProducer panics without a sink. A policy that breaks a rule is reported by Run.
func NewProducer[In, Out any](sink Sink, task Task[In, Out], p policy.Producer, opts ...Option) *Producer[In] {
	argument.Need(sink != nil, "pipeline: NewProducer: the sink")
	e := newEngine(producer, collect(opts), ofProducer(p))
	b := bind(task)
	e.steps.do, e.steps.success, e.steps.exception = b.produce(sink), b.success(), b.exception()
	e.ends = ends{parts: []any{sink, task.Sink, e.deadLetter}, sink: placeOf(sink)}
	return &Producer[In]{engine: e, transaction: b.transaction}
}

// Run produces the values of a finite sequence, in chunks of the policy's batch.size: one chunk after another, the values of
// a chunk concurrently. It returns nil at the end of the sequence, at the policy's limit, or after Drain. Otherwise it
// returns:
//   - a [*ProducerLoopTimeoutError] after the policy's loop.timeout;
//   - the error of the sequence, or a [*retry.PanicError] if the sequence panics, after producing the values before it;
//   - the cause of ctx when ctx ends.
//
// Run reads the sequence on a separate goroutine; the sequence should end when ctx does. A producer runs once at a time. Tasks
// that an earlier run abandoned and that have not returned count against the concurrency.
// Values of an unfinished chunk count as redelivered: the caller has to produce them again.
func (p *Producer[In]) Run(ctx context.Context, values iter.Seq2[In, error]) (Summary, error) {
	if values == nil {
		return Summary{}, fmt.Errorf("pipeline: producer %s: the sequence of values is nil", p.name)
	}
	next, stop := iter.Pull2(values)
	in := input(func() (*Transaction, error, bool) {
		value, err, ok := next()
		if err != nil || !ok {
			return nil, err, ok
		}
		t, err := p.transaction(value)
		return t, err, true
	})
	return p.start(ctx, in.chunk, func() {
		if err := finished(stop); err != nil { // logged only: the run has its result already
			p.log.Error("pipeline: the input failed at its end", "pipeline", p.name, "error", err)
		}
	})
}

// finished ends a sequence that may panic while it cleans up.
func finished(stop func()) (err error) {
	defer recoverPanic(&err)
	stop()
	return nil
}

// input returns one transaction of a sequence after another.
type input func() (*Transaction, error, bool)

// chunk is a feeder.
func (in input) chunk(_ context.Context, r *run, room int) (got []Delivery, end bool, err error) {
	defer recoverPanic(&err) // of the sequence; the values before the panic are kept
	for len(got) < room {
		t, err, ok := in()
		switch {
		case !ok:
			return got, true, nil
		case err != nil:
			return got, true, fmt.Errorf("pipeline: producer %s: input: %w", r.name, err)
		case t == nil:
			return got, true, &ContractError{Part: "input", Problem: "a transaction is nil"}
		}
		got = append(got, Delivery{Transaction: t})
	}
	return got, false, nil
}

// Values makes a sequence for [Producer.Run].
func Values[In any](list ...In) iter.Seq2[In, error] {
	return func(yield func(In, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}
