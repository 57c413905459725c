package pipeline

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Consumer fetches transactions from a source and has a task process them. Its methods may be called from any goroutine.
type Consumer struct {
	*engine
	source Source
	turn   chan struct{} // held during a fetch, which may outlive its run
}

// NewConsumer makes a consumer. It panics without a source or a task. A policy that breaks a rule is reported by Run.
func NewConsumer[In, Out any](source Source, task Task[In, Out], p policy.Consumer, opts ...Option) *Consumer {
	argument.Need(source != nil, "pipeline: NewConsumer: the source")
	argument.Need(task.Process != nil || task.Sink != nil || task.Success != nil, "pipeline: NewConsumer: the task's Process")
	e := newEngine(consumer, collect(opts), ofConsumer(p))
	b := bind(task)
	e.steps.do, e.steps.success, e.steps.exception = b.process, b.success(), b.exception()
	e.capabilities = capabilitiesOf(source)
	e.ends = ends{parts: []any{source, task.Sink, e.deadLetter}, source: placeOf(source), sink: placeOf(task.Sink)}
	return &Consumer{engine: e, source: source, turn: make(chan struct{}, 1)}
}

// Run consumes until the source ends or, unless the policy says streaming, is empty; until the policy's limit is reached; or
// until Drain is called. In these cases it returns nil. Otherwise it returns:
//   - a [*ConsumerLoopTimeoutError] after the policy's loop.timeout;
//   - a [*FetchError] or [*FetchTimeoutError] after a fetch that failed for good;
//   - a [*ContractError] for a source that returns too many deliveries;
//   - the cause of ctx when ctx ends.
//
// Failed transactions are counted in the summary, which is complete in all cases. A consumer runs once at a time. Tasks that an
// earlier run abandoned and that have not returned count against the concurrency, and their transactions do not start again
// before they have; an abandoned fetch delays the next one.
func (c *Consumer) Run(ctx context.Context) (Summary, error) {
	f := &fetching{source: c.source, turn: c.turn}
	f.op = f.ask
	return c.start(ctx, f.fetch, func() {})
}

// fetching is a run's fetch in progress. The feeder makes one fetch at a time, so all of them share one operation.
type fetching struct {
	source  Source
	turn    chan struct{}
	op      retry.Operation
	r       *run
	request FetchRequest
	extra   map[string]any
	limit   time.Duration // the longest time of a healthy attempt
	number  int

	got      []Delivery
	end      bool
	attempts int
	timedOut bool // the last attempt failed after its timeout
}

// fetch asks the source, under the fetch step's policy.
func (f *fetching) fetch(ctx context.Context, r *run, room int) (got []Delivery, end bool, err error) {
	l := r.policies.loop()
	f.r, f.extra, f.request = r, l.extra, FetchRequest{Max: room, Wait: l.batch.Interval}
	f.got, f.end, f.attempts, f.timedOut = nil, false, 0, false
	if f.limit = r.executor.Policy(ctx, r.steps.keys.fetch).Retry.TimeoutPerAttempt; f.limit <= 0 {
		f.limit = l.batch.Interval + healthyFetch
	}
	f.number++
	err = r.executor.DoStep(ctx, retry.Step{
		Key: r.steps.keys.fetch, ID: r.name + "#" + strconv.Itoa(f.number), Name: stepFetch, Operation: r.steps.operation[stepFetch],
		TraceID: r.span.work.TraceID,
	}, f.op)
	r.countRetries(f.attempts - 1)
	if err == nil {
		return f.got, f.end, nil
	}
	failed := FetchError{Pipeline: r.name, Cause: err}
	if f.timedOut || errors.Is(err, context.DeadlineExceeded) {
		return f.got, f.end, &FetchTimeoutError{failed}
	}
	return f.got, f.end, &failed
}

// ask is one attempt.
func (f *fetching) ask(ctx context.Context) (err error) {
	defer recoverPanic(&err)
	f.attempts++
	f.r.fetch.begin(f.limit)
	defer f.r.fetch.end()
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	f.request.Extra = fields.Copy(f.extra)
	found, err := f.source.Fetch(ctx, f.request)
	f.got = found
	if errors.Is(err, ErrEnd) {
		f.end = true
		return nil
	}
	f.timedOut = err != nil && ctx.Err() == context.DeadlineExceeded
	if len(found) > 0 {
		return nil // process these deliveries first; the next fetch reports the error again
	}
	return err
}
