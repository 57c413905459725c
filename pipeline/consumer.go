package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Consumer fetches transactions from a source and has a task process them. Its methods may be called from anywhere.
type Consumer struct {
	*engine
	source Source
}

// NewConsumer makes a consumer. It panics without a source or a task. A policy that breaks a rule is reported by Run.
func NewConsumer(source Source, task Task, p policy.Consumer, opts ...Option) *Consumer {
	argument.Need(source != nil, "pipeline: NewConsumer: the source")
	argument.Need(task != nil, "pipeline: NewConsumer: the task")
	p, err := checked(p)
	e := newEngine(consumer, collect(opts), map[string]policy.Step{
		stepFetch:   {Category: p.Steps.Fetch.Category, Retry: p.Steps.Fetch.Retry},
		stepProcess: p.Steps.Process, stepSuccess: p.Steps.Success, stepException: p.Steps.Exception,
	}, consumerLoop(p))
	if e.fault = errors.Join(err, e.fault); e.fault != nil {
		e.fault = fmt.Errorf("pipeline: consumer %s: policy: %w", e.name, e.fault)
	}
	e.work = task.Process
	e.success, e.exception = handlersOf(task)
	e.acker, _ = source.(Acker)
	e.nacker, _ = source.(Nacker)
	e.extender, _ = source.(Extender)
	e.checked = []any{source, task, e.deadLetter}
	return &Consumer{engine: e, source: source}
}

// Run consumes until the source has come to its end or, unless the policy says streaming, is empty; until the policy's limit
// is reached, or Drain is called. It returns nil then. A policy's loop.timeout ends it with a [*ConsumerLoopTimeoutError], a
// fetch that failed for good with a [*FetchError] or [*FetchTimeoutError], a source that returns too much with a
// [*ContractError], and the end of ctx with that context's cause. What failed transactions came to is in the summary, which
// is complete in all cases. A consumer runs once at a time.
func (c *Consumer) Run(ctx context.Context) (Summary, error) {
	f := &fetching{source: c.source}
	f.op = f.ask
	return c.start(ctx, f.fetch, func() {})
}

// fetching is a run's fetch in progress. Its operation is made once for all of them: the feeder makes one at a time.
type fetching struct {
	source   Source
	op       retry.Operation
	r        *run
	request  FetchRequest
	extra    map[string]any
	patience time.Duration
	number   int

	got      []Delivery
	end      bool
	attempts int
	late     bool // the last attempt failed when its time was over
}

// fetch asks the source, under the fetch step's policy.
func (f *fetching) fetch(ctx context.Context, r *run, room int) (got []Delivery, end bool, err error) {
	l := r.policies.loop()
	f.r, f.extra, f.request = r, l.extra, FetchRequest{Max: room, Wait: l.batch.Interval}
	f.got, f.end, f.attempts, f.late = nil, false, 0, false
	if f.patience = r.executor.Policy(ctx, r.keys.fetch).Retry.TimeoutPerAttempt; f.patience <= 0 {
		f.patience = l.batch.Interval + healthyFetch
	}
	f.number++
	err = r.executor.DoStep(ctx, retry.Step{
		Key: r.keys.fetch, ID: r.name + "#" + strconv.Itoa(f.number), Name: stepFetch, Operation: r.operation[stepFetch],
		TraceID: r.span.work.TraceID,
	}, f.op)
	r.retried(f.attempts - 1)
	if err == nil {
		return f.got, f.end, nil
	}
	failed := FetchError{Pipeline: r.name, Cause: err}
	if f.late || errors.Is(err, context.DeadlineExceeded) {
		return f.got, f.end, &FetchTimeoutError{failed}
	}
	return f.got, f.end, &failed
}

// ask is one attempt.
func (f *fetching) ask(ctx context.Context) (err error) {
	defer caught(&err)
	f.attempts++
	f.r.fetchBegins(f.patience)
	defer f.r.fetchEnds()
	f.request.Extra = fields.Copy(f.extra)
	found, err := f.source.Fetch(ctx, f.request)
	if f.got == nil {
		f.got = found
	} else {
		f.got = append(f.got, found...)
	}
	if errors.Is(err, ErrEnd) {
		f.end = true
		return nil
	}
	f.late = err != nil && ctx.Err() == context.DeadlineExceeded
	if len(found) > 0 {
		return nil // what came is worked on first; the error will come again
	}
	return err
}
