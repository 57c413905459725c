package pipeline_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestL4ASinkErrorRetriesTheDispatchOnly(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var out pipeline.MemorySink
		processed, dispatched, succeeded := 0, 0, 0
		sink := pipeline.SinkFunc(func(ctx context.Context, x *pipeline.Transaction) error {
			if dispatched++; dispatched <= 2 {
				return errDown
			}
			return out.Dispatch(ctx, x)
		})
		task := pipeline.Into(func(_ context.Context, payload []byte) ([]byte, error) {
			processed++
			return append([]byte("made of "), payload...), nil
		}, sink)
		task.Success = func(_ context.Context, in, out []byte) error {
			if succeeded++; string(in) != "x" || string(out) != "made of x" {
				t.Errorf("success of %q with %q", in, out)
			}
			return nil
		}
		p := consumerPolicy(1, 1)
		p.Steps.Success = retries(3)
		x := pipeline.NewTransaction("a", []byte("x"), pipeline.WithMetadata(map[string]string{"k": "v"}), pipeline.WithCorrelation("c"), pipeline.WithAttempts(4))
		summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(x), task, p).Run(bg)
		if err != nil || summary.Success != 1 || processed != 1 || dispatched != 3 || succeeded != 1 {
			t.Fatal(summary, err, processed, dispatched, succeeded)
		}
		got := out.Transactions()[0]
		if got.ID() != "a" || got.Parent() != "a" || got.Correlation() != "c" || got.Metadata("k") != "v" || string(got.Payload()) != "made of x" || got.Attempts() != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestATaskSendsOnWhatItReturns returns one and several transactions, payloads and values; nil sends nothing on.
func TestATaskSendsOnWhatItReturns(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var out pipeline.MemorySink
		task := pipeline.Into(func(_ context.Context, x *pipeline.Transaction) (any, error) {
			switch x.ID() {
			case "one":
				return pipeline.NewTransaction("1", nil), nil
			case "two":
				return append(transactions("2", "3"), nil), nil
			case "bytes":
				return []byte("payload"), nil
			case "value":
				return receipt{Paid: 1}, nil
			case "no transaction":
				return (*pipeline.Transaction)(nil), nil
			case "no bytes":
				return []byte(nil), nil
			case "no value":
				return (*receipt)(nil), nil
			case "without JSON":
				return func() {}, nil
			}
			return nil, nil
		}, &out)
		p := consumerPolicy(1, 9)
		p.Steps.Success = retries(3)
		names := []string{"one", "two", "bytes", "value", "no transaction", "no bytes", "no value", "nil", "without JSON"}
		summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions(names...)...), task, p).Run(bg)
		if err != nil || summary.Success != 8 || summary.Failed != 1 || summary.Retries != 0 {
			t.Error(summary, err)
		}
		var got []string
		for _, x := range out.Transactions() {
			got = append(got, x.ID()+" "+string(x.Payload()))
		}
		if diff := cmp.Diff([]string{"1 ", `2 "2"`, `3 "3"`, "bytes payload", `value {"Paid":1}`}, got); diff != "" {
			t.Error(diff)
		}
		failing := pipeline.Into(func(context.Context, *pipeline.Transaction) ([]*pipeline.Transaction, error) {
			return transactions("2", "3"), nil
		}, pipeline.SinkFunc(func(context.Context, *pipeline.Transaction) error { return errDown }))
		summary, err = pipeline.NewConsumer(pipeline.NewMemorySource(transactions("x")...), failing, consumerPolicy(1, 1)).Run(bg)
		if err != nil || summary.Failed != 1 {
			t.Error(summary, err)
		}
	})
}

type order struct{ Amount int }

type receipt struct{ Paid int }

func TestL4DeadLettersAreASecondPartOfTheExceptionStep(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var letters pipeline.MemorySink
		tries := 0
		sink := pipeline.SinkFunc(func(ctx context.Context, x *pipeline.Transaction) error {
			if tries++; tries == 1 {
				return errDown
			}
			return letters.Dispatch(ctx, x)
		})
		s := &script{process: map[string][]act{"a": {{err: errDown}}}, exception: map[string][]act{"a": fails(1, errDown)}, handlers: "e"}
		p := consumerPolicy(1, 1)
		p.Steps.Process, p.Steps.Exception = retries(2), retries(5)
		x := transactions("a")[0].With(pipeline.WithAttempts(3), pipeline.WithMetadata(map[string]string{"k": "v"}))
		summary, _, source := consume(t, s, p, []*pipeline.Transaction{x}, pipeline.WithDeadLetter(sink), pipeline.WithName("orders"))
		want := []string{"0s process a", "1s process a", "1s exception a", "2s exception a"}
		if diff := cmp.Diff(want, s.log); diff != "" {
			t.Error(diff)
		}
		if summary.Exception != 1 || tries != 2 || len(source.Acked()) != 1 {
			t.Error(summary, tries)
		}
		got := letters.Transactions()[0]
		if got.ID() != "a" || got.Attempts() != 5 || got.Metadata("k") != "v" || got.Metadata(pipeline.MetaConsumer) != "orders" || string(got.Payload()) != `"a"` {
			t.Errorf("%+v", got)
		}
		if x.Attempts() != 3 || x.Metadata(pipeline.MetaError) != "" {
			t.Error("the transaction itself was changed")
		}
	})
}

func TestDeadLettersDescribeTheErrorInOneShortLine(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var letters pipeline.MemorySink
		s := &script{process: map[string][]act{
			"a": {{err: errors.New("nul \x00, bell \a, \xff and\nmore")}}, "b": {{panic: strings.Repeat("long ", 1000)}},
		}}
		consume(t, s, consumerPolicy(1, 2), transactions("a", "b"), pipeline.WithDeadLetter(&letters))
		got := letters.Transactions()
		if text := got[0].Metadata(pipeline.MetaError); !strings.HasSuffix(text, ": nul , bell , \uFFFD and") {
			t.Errorf("%q", text)
		}
		if text := got[1].Metadata(pipeline.MetaError); len(text) != 1000 || strings.Contains(text, "\n") {
			t.Errorf("%d bytes", len(text))
		}
	})
}

func TestAGuardsRefusalCarriesNothingFromTheTransactionBefore(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		db := memory.Open()
		defer db.Close()
		var letters pipeline.MemorySink
		var l ledger
		guard := pipeline.WithGuard(guardOver(t, db.Idempotency()))
		s := &script{process: map[string][]act{"slow": ok(time.Hour)}}
		p := consumerPolicy(1, 3)
		p.Steps.Process.Retry.TimeoutPerAttempt = time.Second
		list := append(transactions("a", "slow"), pipeline.NewTransaction("a", []byte("changed")))
		if _, err := pipeline.NewConsumer(pipeline.NewMemorySource(list...), s.task(), p, guard, l.option(), pipeline.WithDeadLetter(&letters)).Run(bg); err != nil {
			t.Fatal(err)
		}
		var failed *pipeline.TransactionError
		if !errors.As(l.ends[2].Err, &failed) || failed.Category != classify.CategorySystem || letters.Transactions()[1].Attempts() != 0 {
			t.Errorf("%+v", failed)
		}
	})
}

func guardOver(t *testing.T, store idempotency.Store) *idempotency.Guard {
	t.Helper()
	g, err := idempotency.NewGuard(store, idempotency.GuardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestL4AGuardRunsEachTransactionOnce(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		db := memory.Open()
		defer db.Close()
		guard := pipeline.WithGuard(guardOver(t, db.Idempotency()))
		s := &script{
			process: map[string][]act{"bad": {{err: classify.Business(errDown)}}, "weak": {{err: errDown}}}, handlers: "s",
		}
		p := consumerPolicy(2, 6)
		p.Loop.Limit = 6
		var letters pipeline.MemorySink
		list := transactions("a", "a", "b", "a", "bad", "bad")
		summary, l, source := consume(t, s, p, list, guard, pipeline.WithDeadLetter(&letters))
		if s.count("process a") != 1 || s.count("success a") != 1 || s.count("process bad") != 1 || len(letters.Transactions()) != 1 {
			t.Error(s.log)
		}
		if summary.Success != 4 || summary.Exception != 2 || len(source.Acked()) != 6 {
			t.Errorf("%+v", summary)
		}
		if diff := cmp.Diff([]pipeline.Outcome{pipeline.Exception, pipeline.Exception}, l.of("bad")); diff != "" {
			t.Error(diff)
		}
		// Failed transactions run again; another payload under the same ID is an exception.
		p.Loop.Limit = 2
		summary, _, _ = consume(t, s, p, transactions("weak", "weak"), guard)
		if s.count("process weak") != 2 || summary.Failed != 2 {
			t.Error(summary, s.log)
		}
		p.Loop.Limit = 1
		summary, l, _ = consume(t, s, p, []*pipeline.Transaction{pipeline.NewTransaction("a", []byte("changed"))}, guard, pipeline.WithDeadLetter(&letters))
		if summary.Exception != 1 || !errors.Is(l.err("a"), idempotency.ErrMismatch) {
			t.Error(summary, l.err("a"))
		}
	})
}

// brokenStore fails every Begin.
type brokenStore struct{ idempotency.Store }

func (brokenStore) Begin(context.Context, idempotency.BeginRequest) (idempotency.Begun, error) {
	return idempotency.Begun{}, errDown
}

func (brokenStore) Get(context.Context, idempotency.ID) (idempotency.Record, error) {
	return idempotency.Record{}, errDown
}

// busyStore reports every key as in flight.
type busyStore struct{ idempotency.Store }

func (busyStore) Begin(context.Context, idempotency.BeginRequest) (idempotency.Begun, error) {
	return idempotency.Begun{Verdict: idempotency.Busy, RetryAfter: 7 * time.Second}, nil
}

func TestL4ATransactionThatAGuardRefusesIsGivenBack(t *testing.T) {
	cases := map[string]struct {
		store idempotency.Store
		delay time.Duration
	}{
		"store down": {brokenStore{}, 5 * time.Second},
		"in flight":  {busyStore{}, 7 * time.Second},
	}
	for name, c := range cases {
		bubble(t, name, func(t *testing.T) {
			source := newScripted(answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd})
			s := &script{handlers: "se"}
			summary, err := pipeline.NewConsumer(source, s.task(), policy.Consumer{}, pipeline.WithGuard(guardOver(t, c.store)), quiet).Run(bg)
			if err != nil || summary.Redelivered != 1 || len(s.log) > 0 {
				t.Fatal(summary, err, s.log)
			}
			if diff := cmp.Diff([]nack{{ID: "a", Delay: c.delay}}, source.nacked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// live is a provider with a changing document.
type live struct{ set atomic.Pointer[policy.Set] }

func (l *live) Policy(ctx context.Context, k policy.Key) (*policy.Policy, error) {
	return l.set.Load().Policy(ctx, k)
}
func (l *live) Set() *policy.Set { return l.set.Load() }

func (l *live) change(t *testing.T, names ...policy.Consumer) {
	t.Helper()
	c := policy.SetConfig{Consumers: map[string]policy.Consumer{}, Policies: map[policy.Key]*policy.Policy{}}
	for _, p := range names {
		p, err := p.Normalize(policy.StepLimits())
		if err != nil {
			t.Fatal(err)
		}
		c.Consumers["orders"] = p
		for step, r := range map[string]policy.Retry{
			"fetch": p.Steps.Fetch.Retry, "process": p.Steps.Process.Retry, "success": p.Steps.Success.Retry, "exception": p.Steps.Exception.Retry,
		} {
			key := policy.ConsumerKey("orders", step)
			compiled, err := policy.Compile(policy.Policy{Key: key, Retry: r, Hedge: policy.Hedge{Enabled: step == "process"}}, policy.StepLimits(), policy.SourceFile)
			if err != nil {
				t.Fatal(err)
			}
			c.Policies[key] = compiled
		}
	}
	l.set.Store(policy.NewSet(c))
}

func TestL1PoliciesChangeBetweenBatches(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		provider := &live{}
		provider.change(t)
		s := &script{process: map[string][]act{"*": ok(time.Second)}}
		source := newScripted(answer{ids: []string{"a", "b"}}, answer{ids: []string{"c", "d", "e", "f"}}, answer{ids: []string{"g", "h"}}, answer{ids: []string{"i"}})
		base := consumerPolicy(1, 2)
		base.Loop.Limit = 9
		consumer := pipeline.NewConsumer(source, s.task(), base, pipeline.WithName("orders"), pipeline.WithProvider(provider), quiet)
		wider := consumerPolicy(4, 4)
		wider.Loop.Limit = 9
		time.AfterFunc(500*time.Millisecond, func() { provider.change(t, wider) })
		time.AfterFunc(2500*time.Millisecond, func() {
			narrow := consumerPolicy(1, 2)
			narrow.Loop.Limit = 9
			provider.change(t, narrow)
		})
		summary, err := consumer.Run(bg)
		if err != nil || summary.Success != 9 {
			t.Fatal(summary, err)
		}
		if diff := cmp.Diff([]int{2, 4, 2, 1}, asked(source)); diff != "" {
			t.Error(diff)
		}
		// One transaction at a time, then four, then one again.
		var want []time.Duration
		for _, at := range []int{0, 1, 2, 2, 2, 2, 3, 4, 5} {
			want = append(want, time.Duration(at)*time.Second)
		}
		var got []time.Duration
		for _, line := range s.log {
			var at time.Duration
			for i := range line {
				if line[i] == ' ' {
					at, _ = time.ParseDuration(line[:i])
					break
				}
			}
			got = append(got, at)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// failing is a provider that always returns an error.
type failing struct{}

func (failing) Policy(context.Context, policy.Key) (*policy.Policy, error) {
	return nil, policy.ErrProviderUnavailable
}

func TestAProviderThatFailsFollowsTheExecutorsMode(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{handlers: "e"}
		source := pipeline.NewMemorySource(transactions("a")...)
		_, err := pipeline.NewConsumer(source, s.task(), policy.Consumer{}, pipeline.WithProvider(failing{}),
			pipeline.WithExecutorOptions(retry.ExecutorOptions{MissingPolicyMode: retry.FailureDeny})).Run(bg)
		if !errors.Is(err, retry.ErrNoPolicy) {
			t.Error(err)
		}
		if summary, err := pipeline.NewConsumer(source, s.task(), policy.Consumer{}, pipeline.WithProvider(failing{})).Run(bg); err != nil || summary.Success != 1 {
			t.Error(summary, err)
		}
	})
}

// broken is an error of an incomparable type.
type broken []string

func (b broken) Error() string { return b[0] }

// outage is a provider that returns such errors.
type outage struct{}

func (outage) Policy(context.Context, policy.Key) (*policy.Policy, error) { return nil, broken{"down"} }

func TestR2AProviderOutageKeepsTheStepsPolicies(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		runs := 0
		task := pipeline.Task[*pipeline.Transaction, any]{Process: func(context.Context, *pipeline.Transaction) (any, error) {
			runs++
			return nil, errors.New("down")
		}}
		once := consumerPolicy(1, 1)
		once.Loop.Limit = 3
		once.Steps.Process.Retry = policy.Retry{MaxAttempts: 1}
		source := pipeline.NewMemorySource(transactions("a", "b", "c")...)
		summary, err := pipeline.NewConsumer(source, task, once, pipeline.WithProvider(outage{})).Run(bg)
		if err != nil || summary.Failed != 3 || runs != 3 {
			t.Errorf("%+v %v after %d runs of a step that may run once", summary, err, runs)
		}
	})
}

// explosive is a provider without policies that panics when its version is read for the at-th time, or always at 0.
type explosive struct{ version, at uint64 }

func (e *explosive) Version() uint64 {
	if e.version++; e.at == 0 || e.version == e.at {
		panic("no version")
	}
	return 1
}

func (e *explosive) Policy(context.Context, policy.Key) (*policy.Policy, error) {
	return nil, policy.ErrProviderUnavailable
}

func TestR3APanicOfAProviderKeepsThePolicies(t *testing.T) {
	for at := range uint64(4) {
		bubble(t, fmt.Sprint(at), func(t *testing.T) {
			provider := &explosive{at: at}
			source := pipeline.NewMemorySource(transactions("a", "b")...)
			var log bytes.Buffer
			summary, err := pipeline.NewConsumer(source, (&script{}).task(), consumerPolicy(1, 1), pipeline.WithProvider(provider),
				pipeline.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Run(bg)
			if err != nil || summary.Success != 2 || provider.version != 4 || !strings.Contains(log.String(), "panic in provider: no version") {
				t.Error(summary, err, provider.version, log.String())
			}
		})
	}
}

// wordless is a provider that returns neither a policy nor an error.
type wordless struct{}

func (wordless) Policy(context.Context, policy.Key) (*policy.Policy, error) { return nil, nil }

func TestR2AMissingPolicyIsDeniedUnderDeny(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := pipeline.NewMemorySource(transactions("a")...)
		task := pipeline.Handle(func(context.Context, *pipeline.Transaction) error { return nil })
		summary, err := pipeline.NewConsumer(source, task, consumerPolicy(1, 1), pipeline.WithProvider(wordless{}),
			pipeline.WithExecutorOptions(retry.ExecutorOptions{MissingPolicyMode: retry.FailureDeny})).Run(bg)
		if !errors.Is(err, policy.ErrPolicyNotFound) || summary.Fetched != 0 {
			t.Error(summary, err)
		}
	})
}

// wild is a provider of an invalid policy.
type wild struct{ policy policy.Policy }

func (w *wild) Policy(context.Context, policy.Key) (*policy.Policy, error) { return &w.policy, nil }

func TestP7AnInvalidPolicyKeepsTheStepsPolicies(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		runs := 0
		task := pipeline.Handle(func(context.Context, *pipeline.Transaction) error {
			runs++
			return errors.New("down")
		})
		once := consumerPolicy(1, 1)
		once.Loop.Limit = 3
		once.Steps.Process.Retry = policy.Retry{MaxAttempts: 1}
		source := pipeline.NewMemorySource(transactions("a", "b", "c")...)
		provider := &wild{policy.Policy{Retry: policy.Retry{Jitter: "wild"}}}
		summary, err := pipeline.NewConsumer(source, task, once, pipeline.WithProvider(provider)).Run(bg)
		if err != nil || summary.Failed != 3 || runs != 3 {
			t.Errorf("%+v %v after %d runs of a step that may run once", summary, err, runs)
		}
	})
}

func TestL1InvalidPoliciesAreRejected(t *testing.T) {
	zero := policy.Producer{}
	zero.Steps.Produce.Retry.MaxAttempts = -1
	none := policy.Consumer{}
	none.Loop.Concurrency.Value = -1
	slower := policy.Consumer{}
	slower.Steps.Process.Retry.BackoffMultiplier = 0.5
	unknown := policy.Consumer{}
	unknown.Steps.Process.Retry.Jitter = "a lot"
	for name, run := range map[string]func() error{
		"steps.produce.retry.max_attempts": func() error {
			_, err := pipeline.NewProducer(&pipeline.MemorySink{}, pipeline.Raw{}, zero).Run(bg, pipeline.Values[*pipeline.Transaction]())
			return err
		},
		"loop.concurrency.value":                 func() error { return runWith(none) },
		"steps.process.retry.backoff_multiplier": func() error { return runWith(slower) },
		"steps.process.retry.jitter":             func() error { return runWith(unknown) },
	} {
		var broken *policy.ValidationError
		if err := run(); !errors.As(err, &broken) || broken.Violations[0].Path != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestL1ValidExamplesOfTheModelRun runs a batch consumer, a producer with one attempt, and a streaming consumer with backoff.
func TestL1ValidExamplesOfTheModelRun(t *testing.T) {
	bubble(t, "batch consumer", func(t *testing.T) {
		p := consumerPolicy(10, 100)
		p.Loop.Streaming = true
		p.Steps.Process.Retry = policy.Retry{MaxAttempts: 3, TimeoutPerAttempt: 5 * time.Second}
		s := &script{process: map[string][]act{"t07": ok(time.Hour), "*": ok(time.Second)}}
		source := newScripted(answer{ids: many(100)}, answer{err: pipeline.ErrEnd})
		summary, err := pipeline.NewConsumer(source, s.task(), p).Run(bg)
		if err != nil || summary.Success != 99 || summary.Failed != 1 || s.count("process t07") != 3 || s.most != 10 || source.requests[0].Max != 100 {
			t.Error(summary, err)
		}
	})
	bubble(t, "a producer with one attempt", func(t *testing.T) {
		var p policy.Producer
		p.Steps.Produce.Retry.MaxAttempts = 1
		s := &script{}
		s.task()
		summary, err := pipeline.NewProducer(s.sinkOf(map[string][]act{"a": {{err: errDown}}}), pipeline.Raw{}, p).Run(bg, pipeline.Values(transactions("a", "b")...))
		if err != nil || summary.Failed != 1 || summary.Success != 1 || s.count("produce a") != 1 {
			t.Error(summary, err)
		}
	})
	bubble(t, "a streaming consumer with backoff", func(t *testing.T) {
		var p policy.Consumer
		p.Loop.Streaming = true
		p.Loop.EmptyQueue = policy.EmptyQueue{Backoff: time.Second, BackoffCap: 60 * time.Second}
		p.Loop.Timeout = 1000 * time.Second
		source := newScripted(answer{})
		_, _ = pipeline.NewConsumer(source, pipeline.Map(nothing), p).Run(bg)
		if n := len(source.times); source.times[n-1]-source.times[n-2] != 60*time.Second || source.times[1] != time.Second {
			t.Error(source.times)
		}
	})
}

func TestMissingPartsAreRejected(t *testing.T) {
	ctx, cancel := context.WithCancel(bg)
	cancel()
	source := pipeline.NewMemorySource(transactions("a")...)
	if summary, err := pipeline.NewConsumer(source, pipeline.Map(nothing), policy.Consumer{}).Run(ctx); !errors.Is(err, context.Canceled) || summary.Fetched != 0 {
		t.Error(summary, err)
	}
}

func TestAProducersLoopComesFromTheProvidersDocument(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		p, err := producerPolicy(2, 2).Normalize(policy.StepLimits())
		if err != nil {
			t.Fatal(err)
		}
		p.Loop.Limit = 3
		set := policy.NewSet(policy.SetConfig{Producers: map[string]policy.Producer{"invoices": p}})
		var sink pipeline.MemorySink
		summary, err := pipeline.NewProducer(&sink, pipeline.Raw{}, policy.Producer{}, pipeline.WithName("invoices"), pipeline.WithProvider(set)).
			Run(bg, pipeline.Values(transactions(many(9)...)...))
		if err != nil || summary.Success != 3 {
			t.Error(summary, err)
		}
	})
}

func runWith(p policy.Consumer) error {
	_, err := pipeline.NewConsumer(pipeline.NewMemorySource(transactions("a")...), pipeline.Map(nothing), p).Run(bg)
	return err
}

// watcher records events with the names of their spans.
type watcher struct{ list []string }

type spanKey struct{}

func (w *watcher) Start(ctx context.Context, e *observe.Event) context.Context {
	parent, _ := ctx.Value(spanKey{}).(string)
	name := e.Work.Key.Name
	if e.Type == observe.AttemptStarted {
		name = "attempt"
	}
	return context.WithValue(ctx, spanKey{}, parent+"/"+name)
}

func (w *watcher) Observe(ctx context.Context, e *observe.Event) {
	if e.Type != observe.CallEnded {
		return
	}
	path, _ := ctx.Value(spanKey{}).(string)
	outcome := e.Timeline.Attributes.Get(pipeline.AttrOutcome)
	w.list = append(w.list, path+" "+e.Work.ID+" "+e.Work.CorrelationID+" "+e.Work.TraceID+" "+outcome+" "+string(e.Timeline.Reason))
}

func TestL12SpansOfARun(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
		x := pipeline.NewTransaction("a", nil, pipeline.WithCorrelation("c"),
			pipeline.WithMetadata(map[string]string{pipeline.MetaTraceParent: "00-" + trace + "-00f067aa0ba902b7-01"}))
		var w watcher
		s := &script{process: map[string][]act{"b": {{err: errDown}}}, handlers: "se"}
		p := consumerPolicy(1, 2)
		if _, err := pipeline.NewConsumer(pipeline.NewMemorySource(x, transactions("b")[0]), s.task(), p,
			pipeline.WithName("orders"), pipeline.WithObserver(&w)).Run(bg); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"/run/fetch orders#1    success",
			"/run/transaction/process a c " + trace + "  success",
			"/run/transaction/success a c " + trace + "  success",
			"/run/transaction a c " + trace + " success success",
			"/run/transaction/process b    attempts_exhausted",
			"/run/transaction/exception b    success",
			"/run/transaction b   exception attempts_exhausted",
			"/run/fetch orders#2    success",
			"/run orders    success",
		}
		if diff := cmp.Diff(want, w.list); diff != "" {
			t.Error(diff)
		}
	})
}

// mute is an observer that always panics.
type mute struct{}

func (mute) Start(context.Context, *observe.Event) context.Context { panic("observer") }
func (mute) Observe(context.Context, *observe.Event)               { panic("observer") }

func TestAnObserverThatPanicsLosesNothing(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		source := pipeline.NewMemorySource(transactions("a")...)
		p := consumerPolicy(1, 1)
		p.Loop.Limit, p.Loop.Streaming = 1, true
		summary, _ := pipeline.NewConsumer(source, pipeline.Map(nothing), p, pipeline.WithObserver(mute{}), quiet).Run(bg)
		if waiting, out := source.Len(); summary.Ended() != summary.Fetched || waiting+out+len(source.Acked()) != 1 {
			t.Errorf("%+v, %d wait and %d are held", summary, waiting, out)
		}
		synctest.Wait()
	})
}

type checked struct{ pipeline.Source }

func (checked) Check(context.Context) error { return errDown }

func TestCheckCallsEveryChecker(t *testing.T) {
	source := pipeline.NewMemorySource()
	if err := pipeline.NewConsumer(source, pipeline.Map(nothing), policy.Consumer{}).Check(bg); err != nil {
		t.Error(err)
	}
	if err := pipeline.NewConsumer(checked{source}, pipeline.Map(nothing), policy.Consumer{}).Check(bg); !errors.Is(err, errDown) {
		t.Error(err)
	}
}

func TestSummariesAsJSON(t *testing.T) {
	got, err := json.Marshal(pipeline.Summary{Fetched: 9, Processed: 8, Success: 1, Exception: 2, Failed: 3, Redelivered: 3, Retries: 4, Abandoned: 1, Unsettled: 5, Elapsed: 1500 * time.Millisecond})
	const want = `{"fetched":9,"processed":8,"success":1,"exception":2,"failed":3,"redelivered":3,"retries":4,"abandoned":1,"unsettled":5,"elapsed":1.5}`
	if err != nil || string(got) != want {
		t.Error(string(got), err)
	}
	if got := pipeline.NewConsumer(pipeline.NewMemorySource(), pipeline.Map(nothing), policy.Consumer{}).Progress(); got != (pipeline.Progress{}) {
		t.Error(got)
	}
}

// TestP5AForeignCountOfAttemptsIsBounded: the count may come from a message's header. Below 0 it would allow more attempts than
// a policy does, and a decorrelated delay is computed from one draw per attempt.
func TestP5AForeignCountOfAttemptsIsBounded(t *testing.T) {
	for given, want := range map[int]int{-3: 0, math.MinInt: 0, 7: 7, math.MaxInt: 1_000_000} {
		if n := pipeline.NewTransaction("a", nil, pipeline.WithAttempts(given)).Attempts(); n != want {
			t.Errorf("%d attempts, want %d", n, want)
		}
	}
}
