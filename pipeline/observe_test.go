package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// totals adds up the flows.
type totals struct {
	mu        sync.Mutex
	inFlight  int
	most      int
	processed int
	fetches   []int
	waits     []time.Duration
	outcomes  map[string]int
}

func (c *totals) Observe(_ context.Context, e *observe.Event) {
	if e.Type != observe.Flowed {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outcomes == nil {
		c.outcomes = map[string]int{}
	}
	f := e.Flow
	c.inFlight += f.InFlight
	c.most = max(c.most, c.inFlight)
	if f.Outcome != "" {
		c.outcomes[f.Outcome]++
	}
	if f.Processed {
		c.processed++
	}
	if f.Fetch {
		c.fetches = append(c.fetches, f.Fetched)
	}
	if f.EmptyWait > 0 {
		c.waits = append(c.waits, f.EmptyWait)
	}
}

// list returns the totals that must equal those of the run's summary.
func (c *totals) list() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := map[string]int{"in flight": c.inFlight, "fetched": 0}
	maps.Copy(list, c.outcomes)
	for _, n := range c.fetches {
		list["fetched"] += n
	}
	return list
}

// totals returns the totals that observers should have.
func (l *ledger) totals(fetched int) map[string]int {
	list := map[string]int{"in flight": 0, "fetched": fetched}
	for _, e := range l.ends {
		list[string(e.Outcome)]++
	}
	return list
}

func TestL12FlowsOfAConsumer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var c totals
		s := &script{handlers: "se", process: map[string][]act{"*": ok(time.Second), "c": {{takes: time.Second, err: errDown}}}}
		p := consumerPolicy(2, 3)
		p.Loop.Streaming, p.Loop.Timeout = true, 20*time.Second
		source := newScripted(answer{ids: []string{"a", "b", "c"}}, answer{}, answer{}, answer{ids: []string{"d"}}, answer{})
		summary, err := pipeline.NewConsumer(source, s.task(), p, pipeline.WithObserver(&c), quiet).Run(bg)
		var limit *pipeline.ConsumerLoopTimeoutError
		if !errors.As(err, &limit) {
			t.Fatal(err)
		}
		if c.most != 2 || c.inFlight != 0 || c.processed != 3 || summary.Processed != 3 {
			t.Errorf("%d in flight at most, %d at the end, %d processed of %+v", c.most, c.inFlight, c.processed, summary)
		}
		if diff := cmp.Diff(map[string]int{"success": 3, "exception": 1}, c.outcomes); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]int{3, 0, 0, 1, 0, 0, 0, 0, 0}, c.fetches); diff != "" {
			t.Error(diff)
		}
		second := time.Second // a non-empty fetch resets the count of empty fetches
		if diff := cmp.Diff([]time.Duration{second, 2 * second, second, 2 * second, 4 * second, 8 * second, 16 * second}, c.waits); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL12FlowsOfAProducer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var c totals
		var p policy.Producer
		p.Loop.Concurrency.Value, p.Loop.Batch.Size = 2, 3
		var sink pipeline.MemorySink
		producer := pipeline.NewProducer(&sink, pipeline.Raw{}, p, pipeline.WithObserver(&c))
		if _, err := producer.Run(bg, pipeline.Values(transactions("a", "b", "c", "d")...)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{3, 1}, c.fetches); diff != "" || c.inFlight != 0 || c.outcomes["success"] != 4 || c.processed != 4 {
			t.Error(diff, c.inFlight, c.outcomes, c.processed)
		}
	})
}

// TestL12AbandonedWorkIsNotInFlight checks an abandoned transaction before and after its task returns.
func TestL12AbandonedWorkIsNotInFlight(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var c totals
		s := &script{process: map[string][]act{"a": {{takes: time.Hour, deaf: true}}}}
		p := consumerPolicy(1, 2)
		p.Loop.Timeout = time.Second
		consumer := pipeline.NewConsumer(newScripted(answer{ids: []string{"a", "b"}}), s.task(), p,
			pipeline.WithObserver(&c), pipeline.WithGrace(time.Second), quiet)
		if summary, _ := consumer.Run(bg); summary.Abandoned != 1 || c.inFlight != 0 || c.outcomes["redelivered"] != 2 {
			t.Errorf("%+v, %d in flight, %v", summary, c.inFlight, c.outcomes)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if c.inFlight != 0 || len(c.outcomes) != 1 || c.outcomes["redelivered"] != 2 {
			t.Errorf("%d in flight, %v", c.inFlight, c.outcomes)
		}
	})
}

// tracer gives each unit of work and each attempt a numbered span, and each transaction its own trace.
type tracer struct {
	mu   sync.Mutex
	next byte
	open map[observe.Span]string
	own  map[string]observe.Trace
}

func (tr *tracer) Start(ctx context.Context, e *observe.Event) context.Context {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.next++
	span, _ := observe.SpanOf(ctx)
	span.SpanID[7] = tr.next
	if e.Trace != nil {
		span.TraceID[15] = tr.next
		tr.own[e.Work.ID] = *e.Trace
	} else if e.Type == observe.CallStarted && e.Work.Key.Name == "run" {
		span.TraceID[15] = 0xff
	}
	if e.Type == observe.CallStarted {
		tr.open[span] = e.Work.Key.Name + " " + e.Work.ID
	}
	return observe.WithSpan(ctx, span)
}

func (tr *tracer) Observe(ctx context.Context, e *observe.Event) {
	if e.Type != observe.CallEnded {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	span, _ := observe.SpanOf(ctx)
	delete(tr.open, span)
}

// contextless is a Starter that returns no context.
type contextless struct{ *tracer }

func (contextless) Start(context.Context, *observe.Event) context.Context { return nil }

func TestL12AStarterWithoutAContextDoesNotFailTheWork(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := &script{handlers: "s"}
		summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(pipeline.NewTransaction("a", []byte("x"))), s.task(), consumerPolicy(1, 1),
			pipeline.WithObserver(contextless{newTracer()}), quiet).Run(bg)
		if err != nil || summary.Success != 1 {
			t.Errorf("%+v, %v", summary, err)
		}
	})
}

func newTracer() *tracer {
	return &tracer{open: map[observe.Span]string{}, own: map[string]observe.Trace{}}
}

// TestL12LogsOfTransactions: log lines have the transaction, trace, span, step and attempt, but no payload, extra values or
// metadata.
func TestL12LogsOfTransactions(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		x := pipeline.NewTransaction("a", []byte("payload-secret"), pipeline.WithMetadata(map[string]string{"note": "metadata-secret"}))
		p := consumerPolicy(1, 1)
		p.Steps.Process = retries(2)
		p.Steps.Fetch.Extra = map[string]any{"token": "extra-secret"}
		s := &script{process: map[string][]act{"a": {{err: errDown}, {}}}, handlers: "s"}
		if _, err := pipeline.NewConsumer(pipeline.NewMemorySource(x), s.task(), p, pipeline.WithName("orders"), pipeline.WithLogger(logger),
			pipeline.WithObserver(observe.Multi(newTracer(), observe.Slog(logger)))).Run(bg); err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"payload-secret", "metadata-secret", "extra-secret", "result of a"} {
			if strings.Contains(out.String(), secret) {
				t.Errorf("%s is in the log", secret)
			}
		}
		// 1 run, 2 fetch, 3 its attempt, 4 transaction, 5 process, 6 and 7 its attempts, 8 success, 9 its attempt.
		const own, around = "trace_id=00000000000000000000000000000004", "trace_id=000000000000000000000000000000ff"
		var got []string
		for line := range strings.Lines(out.String()) {
			var kept []string
			for _, field := range strings.Fields(line) {
				switch name, _, _ := strings.Cut(field, "="); name {
				case "step", "transaction", "work_id", "trace_id", "span_id", "attempt", "action":
					kept = append(kept, strings.Replace(field, "span_id=00000000000000", "span=", 1))
				}
			}
			got = append(got, strings.Join(kept, " "))
		}
		want := []string{
			"attempt=1 step=fetch work_id=orders#1 " + around + " span=03",
			"attempt=1 action=done step=fetch work_id=orders#1 " + around + " span=02",
			"step=fetch work_id=orders#1 " + around + " span=02",
			"attempt=1 step=process transaction=a " + own + " span=06",
			"attempt=1 action=retry step=process transaction=a " + own + " span=05",
			"attempt=2 step=process transaction=a " + own + " span=07",
			"attempt=2 action=done step=process transaction=a " + own + " span=05",
			"step=process transaction=a " + own + " span=05",
			"attempt=1 step=success transaction=a " + own + " span=09",
			"attempt=1 action=done step=success transaction=a " + own + " span=08",
			"step=success transaction=a " + own + " span=08",
			"step=transaction transaction=a " + own + " span=04",
		}
		if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
			t.Error(diff)
		}
	})
}

// TestL12TheEnginesOwnLogNamesTransactionAndSpan also checks a transaction that the engine abandons.
func TestL12TheEnginesOwnLogNamesTransactionAndSpan(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
		run := func(options ...pipeline.Option) string {
			var out bytes.Buffer
			x := pipeline.NewTransaction("a", []byte("payload-secret"),
				pipeline.WithMetadata(map[string]string{pipeline.MetaTraceParent: "00-" + trace + "-00f067aa0ba902b7-01"}))
			s := &script{process: map[string][]act{"a": {{takes: time.Minute, deaf: true}}}}
			p := consumerPolicy(1, 1)
			p.Loop.Timeout = time.Second
			_, _ = pipeline.NewConsumer(pipeline.NewMemorySource(x), s.task(), p, append(options,
				pipeline.WithLogger(slog.New(slog.NewTextHandler(&out, nil))), pipeline.WithGrace(time.Second))...).Run(bg)
			time.Sleep(time.Hour)
			return out.String()
		}
		if got := run(); !strings.Contains(got, "it is abandoned") || !strings.Contains(got, "transaction=a trace_id="+trace+"\n") {
			t.Error(got)
		}
		got := run(pipeline.WithObserver(newTracer()))
		if !strings.Contains(got, "transaction=a trace_id=00000000000000000000000000000004 span_id=0000000000000004\n") {
			t.Error(got)
		}
		if strings.Contains(got, "payload-secret") {
			t.Error("the payload is in the log")
		}
	})
}

func TestL12EverySpanEnds(t *testing.T) {
	for name, process := range map[string]act{"error": {err: errDown}, "panic": {panic: "boom"}, "cut": {takes: time.Hour}} {
		bubble(t, name, func(t *testing.T) {
			tr := newTracer()
			p := consumerPolicy(1, 1)
			p.Loop.Timeout = time.Minute
			p.Steps.Process.Retry.TimeoutPerAttempt = 2 * time.Second
			s := &script{process: map[string][]act{"a": {process}}}
			source := newScripted(answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd})
			if _, err := pipeline.NewConsumer(source, s.task(), p, pipeline.WithObserver(tr), quiet).Run(bg); err != nil {
				t.Fatal(err)
			}
			if len(tr.open) > 0 {
				t.Errorf("open: %v", tr.open)
			}
		})
	}
	bubble(t, "goexit", func(t *testing.T) {
		tr := newTracer()
		task := pipeline.Map(func(context.Context, *pipeline.Transaction) (any, error) { runtime.Goexit(); return nil, nil })
		source := newScripted(answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd})
		if _, err := pipeline.NewConsumer(source, task, consumerPolicy(1, 1), pipeline.WithObserver(tr), quiet).Run(bg); err != nil {
			t.Fatal(err)
		}
		for _, work := range tr.open {
			if strings.HasPrefix(work, "transaction") {
				t.Errorf("open: %v", tr.open)
			}
		}
	})
}

// TestL12ATransactionContinuesItsTrace: observers get the incoming traceparent, and records name it if it is valid.
func TestL12ATransactionContinuesItsTrace(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for parent, want := range map[string]string{
		"00-" + trace + "-00f067aa0ba902b7-01":      trace,
		"01-" + trace + "-00f067aa0ba902b7-01-more": trace,
		"":                                     "",
		"00-" + trace:                          "",
		"00_" + trace + "_00f067aa0ba902b7_01": "",
		"00-" + strings.ToUpper(trace) + "-00f067aa0ba902b7-01":           "",
		"00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01":          "",
		"00-" + strings.Repeat("x", 32) + "-00f067aa0ba902b7-01":          "",
		fmt.Sprintf("00-%s-00f067aa0ba902b7-01", strings.Repeat("é", 16)): "",
	} {
		bubble(t, parent, func(t *testing.T) {
			var told observe.Work
			observer := observe.Func(func(_ context.Context, e *observe.Event) {
				if e.Type == observe.CallEnded && e.Work.Key.Name == "process" {
					told = e.Work
				}
			})
			tr := newTracer()
			tr.next = 0
			x := pipeline.NewTransaction("a", nil, pipeline.WithMetadata(map[string]string{
				pipeline.MetaTraceParent: parent, pipeline.MetaTraceState: "vendor=1",
			}))
			run := func(o observe.Observer) {
				source := pipeline.NewMemorySource(x)
				if _, err := pipeline.NewConsumer(source, pipeline.Map(nothing), consumerPolicy(1, 1), pipeline.WithObserver(o)).Run(bg); err != nil {
					t.Fatal(err)
				}
			}
			if run(observer); told.TraceID != want {
				t.Errorf("trace %q, want %q", told.TraceID, want)
			}
			run(tr)
			if diff := cmp.Diff(map[string]observe.Trace{"a": {Parent: parent, State: "vendor=1"}}, tr.own); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestL12RecordsNameTheTraceThatBegan(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		traces := map[string]string{}
		observer := observe.Func(func(_ context.Context, e *observe.Event) {
			if e.Type == observe.CallEnded {
				traces[e.Work.Key.Name] = e.Work.TraceID[len(e.Work.TraceID)-2:]
			}
		})
		source := pipeline.NewMemorySource(transactions("a")...)
		if _, err := pipeline.NewConsumer(source, pipeline.Map(nothing), consumerPolicy(1, 1),
			pipeline.WithObserver(observe.Multi(newTracer(), observer))).Run(bg); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"run": "ff", "fetch": "ff", "transaction": "04", "process": "04"}, traces); diff != "" {
			t.Error(diff)
		}
	})
}

// TestL12ReasonsDistinguishTimeouts: timeouts of attempts, transactions and the loop have different reasons, and so has the work
// that a timeout cancels.
func TestL12ReasonsDistinguishTimeouts(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var timeouts, reasons []string
		observer := observe.Func(func(_ context.Context, e *observe.Event) {
			if observe.TimedOut(e) {
				timeouts = append(timeouts, e.Work.Key.Name+" "+e.Work.ID)
			}
			if e.Type == observe.CallEnded && (e.Work.Key.Name == "transaction" || e.Work.Key.Name == "run") {
				reasons = append(reasons, e.Work.ID+" "+string(e.Timeline.Reason))
			}
		})
		s := &script{process: map[string][]act{"a": ok(time.Hour)}, success: map[string][]act{"b": ok(time.Hour)}, handlers: "se",
			exception: map[string][]act{"c": ok(time.Hour)}}
		s.process["c"] = []act{{err: errDown}}
		p := consumerPolicy(1, 3)
		p.Loop.Timeout, p.Loop.TransactionTimeout = 15*time.Second, 10*time.Second
		p.Steps.Process.Retry.TimeoutPerAttempt = time.Second
		_, _ = pipeline.NewConsumer(newScripted(answer{ids: []string{"a", "b", "c"}}), s.task(), p,
			pipeline.WithName("orders"), pipeline.WithObserver(observer), quiet).Run(bg)
		if diff := cmp.Diff([]string{"process a", "transaction b", "run orders"}, timeouts); diff != "" {
			t.Error(diff)
		}
		want := []string{"a attempts_exhausted", "b deadline_exceeded", "c shutdown", "orders overall_timeout"}
		if diff := cmp.Diff(want, reasons); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL12TheExecutorsClockGivesTheTimesOfAllRecords(t *testing.T) {
	now := time.Date(2020, 2, 29, 12, 0, 0, 0, time.UTC)
	bubble(t, "", func(t *testing.T) {
		var mu sync.Mutex
		seen := map[observe.EventType]bool{}
		observer := observe.Func(func(_ context.Context, e *observe.Event) {
			mu.Lock()
			defer mu.Unlock()
			seen[e.Type] = true
			if !e.Time.Equal(now) || e.Timeline != nil && !e.Timeline.End.Equal(now) {
				t.Errorf("%v of %s at %v", e.Type, e.Work.Key.Name, e.Time)
			}
		})
		clock := pipeline.WithExecutorOptions(retry.ExecutorOptions{Clock: func() time.Time { return now }})
		_, err := pipeline.NewConsumer(newScripted(answer{ids: []string{"a"}}, answer{err: pipeline.ErrEnd}), (&script{}).task(),
			consumerPolicy(1, 1), clock, pipeline.WithObserver(observer)).Run(bg)
		if err != nil || !seen[observe.Flowed] || !seen[observe.CallEnded] {
			t.Error(err, seen)
		}
	})
}

func TestL12ARunEndedByItsContextHasExceededItsDeadline(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		var reason policy.Reason
		observer := observe.Func(func(_ context.Context, e *observe.Event) {
			if e.Type == observe.CallEnded && e.Work.Key.Name == observe.StepRun {
				reason = e.Timeline.Reason
			}
		})
		ctx, cancel := context.WithTimeout(bg, time.Minute)
		defer cancel()
		_, _ = pipeline.NewConsumer(newScripted(answer{takes: time.Hour}), (&script{}).task(), consumerPolicy(1, 1),
			pipeline.WithObserver(observer), quiet).Run(ctx)
		if reason != policy.ReasonDeadlineExceeded {
			t.Error(reason)
		}
	})
}
