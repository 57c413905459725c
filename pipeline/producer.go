package pipeline

import (
	"context"
	"fmt"
	"iter"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// Producer writes transactions to a sink. Its methods may be called from anywhere.
type Producer struct {
	*engine
}

// NewProducer makes a producer. The task prepares what is dispatched and has the handlers, see [Task]; nil dispatches as it
// is. NewProducer panics without a sink. A policy that breaks a rule is reported by Run.
func NewProducer(sink Sink, task Task, p policy.Producer, opts ...Option) *Producer {
	argument.Need(sink != nil, "pipeline: NewProducer: the sink")
	e := newEngine(producer, collect(opts), ofProducer(p))
	if task == nil {
		task = Funcs{}.Task()
	}
	e.steps.do = produce(sink, task)
	e.steps.success, e.steps.exception = handlersOf(task)
	e.checked = []any{sink, task, e.deadLetter}
	return &Producer{e}
}

// produce prepares and dispatches. The result is what was dispatched.
func produce(sink Sink, task Task) func(ctx context.Context, t *Transaction) (any, error) {
	return func(ctx context.Context, t *Transaction) (any, error) {
		prepared, err := task.Process(ctx, t)
		if err != nil {
			return nil, err
		}
		out := t
		switch p := prepared.(type) {
		case nil:
		case *Transaction:
			if p != nil {
				out = p
			}
		case []byte:
			out = t.With(WithPayload(p))
		default:
			return nil, unusable(prepared)
		}
		return out, sink.Dispatch(ctx, handOn(ctx, t, out))
	}
}

// Run produces the transactions of a finite sequence, in chunks of the policy's batch.size: one chunk after another, the
// transactions of a chunk concurrently. It returns nil when the sequence or the policy's limit has come to its end, or Drain
// was called. A policy's loop.timeout ends it with a [*ProducerLoopTimeoutError], an error of the sequence with that error
// and its panic with a [*retry.PanicError] after what came before has been produced, and the end of ctx with that context's
// cause. The sequence is read on a goroutine of its own; it should end when ctx does. A producer runs once at a time.
// Transactions of the chunk that was not finished then count as redelivered: they are the caller's again.
func (p *Producer) Run(ctx context.Context, transactions iter.Seq2[*Transaction, error]) (Summary, error) {
	if transactions == nil {
		return Summary{}, fmt.Errorf("pipeline: producer %s: the sequence of transactions is nil", p.name)
	}
	next, stop := iter.Pull2(transactions)
	input := &input{next: next}
	return p.start(ctx, input.chunk, func() {
		if err := finished(stop); err != nil { // the run has its result already
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

// input cuts a sequence into chunks.
type input struct {
	next func() (*Transaction, error, bool)
}

func (in *input) chunk(_ context.Context, r *run, room int) (got []Delivery, end bool, err error) {
	defer recoverPanic(&err) // the sequence's; what came before it is kept
	for len(got) < room {
		t, err, ok := in.next()
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

// Transactions is a sequence for [Producer.Run].
func Transactions(list ...*Transaction) iter.Seq2[*Transaction, error] {
	return func(yield func(*Transaction, error) bool) {
		for _, t := range list {
			if !yield(t, nil) {
				return
			}
		}
	}
}
