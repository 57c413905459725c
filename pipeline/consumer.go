package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// Consumer fetches transactions from a source and has a task process them. Its methods may be called from anywhere.
type Consumer struct {
	*engine
	source  Source
	fetches int
}

// NewConsumer makes a consumer. A policy that breaks a rule is reported by Run.
func NewConsumer(source Source, task Task, p policy.Consumer, opts ...Option) *Consumer {
	fault := p.Validate(policy.StepLimits())
	p, err := p.Normalize(policy.StepLimits())
	e := newEngine(consumer, collect(opts), map[string]policy.Retry{
		stepFetch: p.Steps.Fetch.Retry, stepProcess: p.Steps.Process.Retry,
		stepSuccess: p.Steps.Success.Retry, stepException: p.Steps.Exception.Retry,
	}, consumerLoop(p))
	if e.fault = errors.Join(fault, err, e.fault); e.fault != nil {
		e.fault = fmt.Errorf("pipeline: consumer %s: policy: %w", e.name, e.fault)
	}
	if source == nil || task == nil {
		e.fault = errors.Join(e.fault, fmt.Errorf("pipeline: consumer %s: source or task is nil", e.name))
		return &Consumer{engine: e}
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
func (c *Consumer) Run(ctx context.Context) (Summary, error) { return c.start(ctx, c.fetch, func() {}) }

// fetch asks the source, under the fetch step's policy.
func (c *Consumer) fetch(ctx context.Context, r *run, room int) (got []Delivery, end bool, err error) {
	c.fetches++
	l := r.policies.loop()
	patience := c.executor.Policy(ctx, c.keys.fetch).Retry.TimeoutPerAttempt
	if patience <= 0 {
		patience = l.batch.Interval + healthyFetch
	}
	attempts, late := 0, false
	step := retry.Step{Key: c.keys.fetch, ID: c.name + "#" + strconv.Itoa(c.fetches), Name: stepFetch}
	err = c.executor.DoStep(ctx, step, func(ctx context.Context) (err error) {
		defer caught(&err)
		attempts++
		r.fetchBegins(patience)
		defer r.fetchEnds()
		found, err := c.source.Fetch(ctx, FetchRequest{Max: room, Wait: l.batch.Interval, Extra: maps.Clone(l.extra)})
		got = append(got, found...)
		if errors.Is(err, ErrEnd) {
			end = true
			return nil
		}
		late = err != nil && ctx.Err() == context.DeadlineExceeded
		if len(found) > 0 {
			return nil // what came is worked on first; the error will come again
		}
		return err
	})
	r.retried(attempts - 1)
	if err == nil {
		return got, end, nil
	}
	failed := FetchError{Pipeline: c.name, Cause: err}
	if late || errors.Is(err, context.DeadlineExceeded) {
		return got, end, &FetchTimeoutError{failed}
	}
	return got, end, &failed
}
