package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/storable"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// undecidedDelay is how long a job waits after an attempt without a verdict.
const undecidedDelay = 10 * time.Second

// runner runs attempts, each on the goroutine of its caller. Handlers are registered before the worker runs; from then on
// the runner is only read.
type runner struct {
	policies   policies
	executor   *retry.Executor
	middleware []Middleware
	handlers   map[string]RawHandler
	batchers   map[string]gatherer           // of the types whose handlers take batches
	types      []string                      // the job types with handlers
	keys       map[kind]policy.Key           // of queues and types known at the start
	operations map[string][]retry.CallOption // that name the operations, by type
	flows      FlowStore                     // nil for a store that keeps none
	codec      Codec                         // nil for none
	log        *slog.Logger
}

// kind is the queue and type of jobs, which run under the same policy.
type kind struct{ queue, jobType string }

// register adds a handler.
func (n *runner) register(jobType string, handler RawHandler) {
	argument.Need(handler != nil, fmt.Sprintf("job: type %q: the handler", jobType))
	if _, taken := n.handlers[jobType]; taken {
		panic(fmt.Sprintf("job: type %q has a handler already", jobType))
	}
	for _, m := range slices.Backward(n.middleware) {
		handler = m(handler)
		argument.Need(handler != nil, "job: the handler that a middleware returned")
	}
	n.handlers[jobType] = handler
}

// start ends registration and prepares the policy keys of the queues.
func (n *runner) start(queues []string) {
	n.types = slices.Sorted(maps.Keys(n.handlers))
	n.keys, n.operations = map[kind]policy.Key{}, map[string][]retry.CallOption{}
	for _, jobType := range n.types {
		n.operations[jobType] = []retry.CallOption{retry.WithOperation(jobType)}
	}
	for _, queue := range queues {
		for jobType := range n.handlers {
			n.keys[kind{queue, jobType}] = policy.JobKey(queue, jobType)
		}
	}
}

// expect announces the jobs of a claim to the batches that they will be in.
func (n *runner) expect(records []*Record) {
	for _, r := range records {
		if b := n.batchers[r.Type]; b != nil {
			b.expect(r.Ref())
		}
	}
}

// key is the policy key of a job.
func (n *runner) key(queue, jobType string) policy.Key {
	if key, ok := n.keys[kind{queue, jobType}]; ok {
		return key
	}
	return policy.JobKey(queue, jobType)
}

// panicError is a panic of user code with its stack.
type panicError struct {
	where string // "" for the handler
	value any
	stack string
}

func (e *panicError) Error() string {
	if e.where != "" {
		return fmt.Sprintf("panic in %s: %v", e.where, e.value)
	}
	return fmt.Sprintf("panic: %v", e.value)
}

// Unwrap shows an error that was panicked with, and so its marks.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// attempt runs one attempt of a job and completes its settlement s. It returns false if there is nothing to settle because
// the lease is lost.
func (n *runner) attempt(ctx context.Context, r *Record, s Settlement) (Settlement, bool) {
	if b := n.batchers[r.Type]; b != nil {
		defer b.left(r.Ref())
	}
	key := n.key(r.Queue, r.Type)
	p := n.executor.Policy(ctx, key)
	attempts, delays := n.policies.fromCode(ctx, p)
	limit, unasked := n.policies.limit(r, p, attempts)
	if unasked != nil {
		// The attempt counts as a failure, so that the job shows why it does not run and is dead after limit attempts.
		n.log.Error("job: the retry policy failed", "job", r.ID, "error", unasked)
		s.Reason, s.Error, s.Stack = policy.ReasonPanicInRetryPolicy, unasked.Error(), unasked.stack
		return failed(s, r, p, limit), true
	}
	if r.Failures >= limit {
		s.Kind, s.Reason = KindBury, policy.ReasonAttemptsExhausted
		return s, true
	}
	payload, err := Open(n.codec, r.Type, r.Payload)
	if err != nil {
		x := Unopened(r, err)
		if x.Started = s.Started; x.Kind == KindRefuse {
			n.log.Warn("job: the job waits for a worker with its key", "job", r.ID, "type", r.Type, "queue", r.Queue, "error", err)
		}
		return x, true
	}
	r.Payload = payload
	work := retry.Work{
		Key: key, ID: r.ID, Turn: int(r.Fence), Attempts: r.Failures, MaxAttempts: limit, Age: age(r, s.Started), Refusals: r.Refusals,
	}
	t := &try{runner: n, record: r}
	if _, isData := n.policies.code.(ExponentialBackoff); delays && !isData {
		work.NextDelay = t.nextDelay
	}
	result := n.executor.Once(ctx, work, t.run, n.callOptions(r)...)
	s.NotRun = !t.ran
	s, settle := settlement(context.Cause(ctx), s, result, t.handled)
	if s.Kind == KindComplete {
		s.Output = t.output
	}
	if t.unasked != nil {
		n.log.Error("job: the retry policy failed", "job", r.ID, "error", t.unasked)
		s.Error = storable.WithEnd(s.Error, "; "+t.unasked.Error())
	}
	return s, settle
}

// try is one attempt's calls of user code, and their results.
type try struct {
	runner  *runner
	record  *Record
	ran     bool        // the handler was called
	handled error       // its result
	output  []byte      // encoded for the store
	unasked *panicError // of a retry policy in code
}

// run calls the handler.
func (t *try) run(ctx context.Context) error {
	t.ran = true
	t.handled = t.runner.call(ctx, t.runner.handlers[t.record.Type], t.record)
	if isControl(t.handled) {
		return nil
	}
	if t.handled == nil {
		t.output, t.handled = t.runner.output(t.record)
	}
	return t.handled
}

// nextDelay asks a retry policy in code.
func (t *try) nextDelay(failed int) (d time.Duration) {
	d, t.unasked = t.runner.policies.nextDelay(failed)
	return d
}

// Unopened returns the settlement of a job whose payload [Open] could not decode. Without its key the job waits for a process that has
// the key, and uses up no attempt; otherwise it is dead.
func Unopened(r *Record, err error) Settlement {
	s := Settlement{Ref: r.Ref(), Kind: KindBury, Reason: policy.ReasonInvalidPayload, Error: "job: payload: " + err.Error()}
	if errors.Is(err, ErrNoKey) {
		s.Kind, s.Delay, s.Reason = KindRefuse, undecidedDelay, policy.ReasonNoPayloadKey
	}
	return s
}

// output returns the output of a job for the store. An error fails the attempt: a job that needs this one must not take a missing
// output for an empty one.
func (n *runner) output(r *Record) ([]byte, error) {
	if n.codec == nil || len(r.Output) == 0 {
		return r.Output, nil
	}
	encoded, err := n.codec.Encode(r.Queue, boundOutput(r.Type), r.Output)
	if err != nil {
		return nil, fmt.Errorf("job: the handler succeeded, but its output cannot be encoded: %w", err)
	}
	return encoded, nil
}

// age is the time since the job's first attempt that ran; claim is the time since the claim by this process's monotonic clock.
func age(r *Record, claim time.Duration) time.Duration {
	if r.StartedAt.IsZero() {
		return 0
	}
	return max(r.ClaimedAt.Sub(r.StartedAt), 0) + claim
}

// exited settles an attempt whose handler called runtime.Goexit, which also ended the executor's work on the attempt.
func (n *runner) exited(ctx context.Context, s Settlement, r *Record) Settlement {
	p := n.executor.Policy(ctx, n.key(r.Queue, r.Type))
	askCode, _ := n.policies.fromCode(ctx, p)
	limit, _ := n.policies.limit(r, p, askCode)
	s.NotRun, s.Reason, s.Error = false, policy.ReasonHandlerExited, "job: the handler ended its goroutine (runtime.Goexit)"
	if s = failed(s, r, p, limit); s.Kind == KindDead {
		s.Reason = policy.ReasonAttemptsExhausted
	}
	return s
}

// failed settles an attempt that failed without a verdict: the job is retried with the policy's delay, or dead.
func failed(s Settlement, r *Record, p *policy.Policy, limit int) Settlement {
	if s.Kind = KindRetry; r.Failures+1 < limit {
		s.Delay = decision.Delay(&p.Retry, decision.Seed(r.ID), r.Failures)
		return s
	}
	s.Kind = KindDead
	return s
}

// call runs the handler and turns a panic into an error.
func (n *runner) call(ctx context.Context, handler RawHandler, r *Record) (err error) {
	defer func() {
		v := recover()
		if failure, ok := v.(*panicError); ok { // of a batch, with the stack of its goroutine
			err = failure
		} else if v != nil {
			err = &panicError{value: v, stack: string(debug.Stack())}
		}
	}()
	return handler(ctx, Job[[]byte]{
		ID: r.ID, Type: r.Type, Queue: r.Queue, Payload: r.Payload, Attempt: r.Failures + 1, Priority: r.Priority, Meta: r.Meta, record: r, ctx: ctx, flows: n.flows, codec: n.codec,
	})
}

func isControl(err error) bool {
	if _, ok := errors.AsType[*snooze](err); ok {
		return true
	}
	_, ok := errors.AsType[*cancellation](err)
	return ok
}

func (n *runner) callOptions(r *Record) []retry.CallOption {
	options := slices.Clip(n.operations[r.Type])
	if r.Timeout > 0 {
		options = append(options, retry.WithPolicy(func(p *policy.Policy) { p.Retry.TimeoutPerAttempt = r.Timeout }))
	}
	if len(r.Meta) == 0 {
		return options
	}
	return append(options, retry.WithTenant(r.Meta["tenant_id"]), retry.WithCorrelation(r.Meta["correlation_id"]), retry.WithTrace(r.Meta["trace_id"]))
}

// guarded runs user code and returns its panic, if any.
func guarded(where string, f func()) (failure *panicError) {
	defer func() {
		if v := recover(); v != nil {
			failure = &panicError{where: where, value: v, stack: string(debug.Stack())}
		}
	}()
	f()
	return nil
}

// settlement translates the executor's decision. handled is the handler's result, and cause why its context ended.
func settlement(cause error, s Settlement, result retry.Result, handled error) (Settlement, bool) {
	s.Reason = result.Verdict.Reason
	if v, ok := errors.AsType[*snooze](handled); ok {
		s.Kind, s.Delay, s.Reason = KindSnooze, v.delay, v.reason
		if handled != error(v) { // an error around it says why
			s.Error = handled.Error()
		}
		return s, true
	}
	if v, ok := errors.AsType[*cancellation](handled); ok {
		s.Kind, s.Reason, s.Error = KindCancel, policy.ReasonCanceled, v.reason
		return s, true
	}
	switch {
	case result.Verdict.Action == decision.Done, handled == nil && !s.NotRun: // what a classifier makes of a success does not undo it
		s.Kind, s.Reason = KindComplete, policy.ReasonSuccess
		return s, true
	case errors.Is(cause, errLeaseLost):
		return s, false
	case errors.Is(cause, errCancelled):
		s.Kind, s.Reason = KindCancel, policy.ReasonOperator
	case errors.Is(cause, errShutdown):
		s.Kind, s.Reason = KindRelease, policy.ReasonShutdown
		return s, true
	case result.Denied:
		s.Kind, s.Delay = KindRefuse, result.Wait
	case handled == nil && s.Reason == policy.ReasonOverallTimeout: // it had passed before the handler could run
		s.Kind = KindBury
	case handled == nil: // the policy or the classifier is missing, which is not the job's fault
		s.Kind, s.Delay = KindRefuse, undecidedDelay
	case result.Verdict.Action == decision.Retry:
		s.Kind, s.Delay, s.Reason = KindRetry, result.Verdict.Delay, result.Outcome.Reason
	default:
		s.Kind = KindDead
	}
	if handled != nil {
		s.Error = handled.Error()
		if detail := result.Outcome.Attributes[observe.AttrDetail]; detail != "" { // such as a classifier's own reason
			s.Error = storable.WithEnd(s.Error, "; detail: "+detail)
		}
	}
	if p, ok := errors.AsType[*panicError](handled); ok {
		s.Stack = p.stack
	}
	if v, ok := errors.AsType[*reasonError](handled); ok {
		s.Reason = v.reason
	}
	return s, true
}

// interrupted settles a job that the worker's shutdown interrupted, before or after its handler was called.
func interrupted(r *Record, ran bool) Settlement {
	return Settlement{Ref: r.Ref(), Kind: KindRelease, Reason: policy.ReasonShutdown, NotRun: !ran}
}
