package jobs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/jobs"
	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/pipeline/pipelinetest"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type store interface {
	job.Store
	job.Admin
}

func put(t *testing.T, to *jobs.Sink, list ...*pipeline.Transaction) {
	t.Helper()
	for _, x := range list {
		if err := to.Dispatch(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
}

func source(t *testing.T, s job.Store, o jobs.SourceOptions) *jobs.Source {
	t.Helper()
	from, err := jobs.NewSource(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return from
}

func TestSource(t *testing.T) {
	const lease = 5 * time.Second
	pipelinetest.Sources(t, pipelinetest.SourceOptions{
		Open: func(t *testing.T) pipelinetest.Queue {
			s := memory.Open().Jobs()
			client := job.NewClient(s) // the sink already drops duplicates
			return pipelinetest.Queue{
				Put: func(t *testing.T, list ...*pipeline.Transaction) {
					t.Helper()
					sink := jobs.NewSink(client, jobs.SinkOptions{Type: "order", Queue: "orders"})
					for _, x := range list {
						put(t, sink, x)
					}
				},
				Source: func(t *testing.T) pipeline.Source {
					return source(t, s, jobs.SourceOptions{Queue: "orders", Lease: lease, Poll: 20 * time.Millisecond})
				},
			}
		},
		Ordered: true, Counts: true, Lease: lease, Bubble: synctest.Test,
	})
}

// taken lists the transactions of all jobs.
func taken(s store) func(t *testing.T) []*pipeline.Transaction {
	return func(t *testing.T) (list []*pipeline.Transaction) {
		records, err := s.List(t.Context(), job.Filter{}, "", 10_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			list = append(list, jobs.FromJob(job.Job[[]byte]{ID: r.ID, Payload: r.Payload, Meta: r.Meta, Attempt: 1}))
		}
		return list
	}
}

func TestSink(t *testing.T) {
	pipelinetest.Sinks(t, pipelinetest.SinkOptions{
		Open: func(t *testing.T) pipelinetest.Target {
			s := memory.Open().Jobs()
			sink := jobs.NewSink(job.NewClient(s), jobs.SinkOptions{Type: "order"})
			return pipelinetest.Target{Sink: func(*testing.T) pipeline.Sink { return sink }, Taken: taken(s)}
		},
		Ordered: true, Deduplicates: true,
	})
}

func record(t *testing.T, s store) *job.Record {
	t.Helper()
	records, err := s.List(t.Context(), job.Filter{}, "", 10)
	if err != nil || len(records) != 1 {
		t.Fatalf("%d jobs, %v", len(records), err)
	}
	return records[0]
}

func TestL11ASettledDeliveryIsASettledJob(t *testing.T) {
	down := errors.New("down")
	failed := func(step string, cause error, earlier *pipeline.TransactionError) error {
		return &pipeline.TransactionError{ID: "a", Step: step, Cause: cause, Earlier: earlier}
	}
	business := failed("process", classify.Business(down), nil)
	final := &retry.Error{Outcome: classify.Outcome{Kind: classify.NonRetryable, Category: classify.CategoryBusiness}, Last: down}
	for name, c := range map[string]struct {
		delay    time.Duration
		cause    error
		max      int
		state    job.State
		attempts int
		reason   policy.Reason
	}{
		"not finished":        {0, nil, 1, job.Ready, 0, ""},
		"not now":             {time.Hour, nil, 1, job.Scheduled, 0, ""},
		"failed":              {time.Hour, failed("process", down, nil), 3, job.Scheduled, 1, policy.ReasonError},
		"attempts exhausted":  {time.Hour, failed("process", down, nil), 1, job.Dead, 1, policy.ReasonAttemptsExhausted},
		"permanent failure":   {time.Hour, failed("process", classify.Permanent(down), nil), 3, job.Dead, 1, policy.ReasonPermanent},
		"business error":      {time.Hour, business, 3, job.Dead, 1, policy.ReasonBusiness},
		"judged as final":     {time.Hour, failed("process", final, nil), 3, job.Dead, 1, policy.ReasonNonRetryable},
		"handler failed":      {time.Hour, failed("exception", classify.Permanent(down), &pipeline.TransactionError{Cause: classify.Business(down)}), 3, job.Scheduled, 1, policy.ReasonError},
		"unmarked error":      {time.Hour, classify.Business(down), 3, job.Dead, 1, policy.ReasonBusiness},
		"limit of the policy": {time.Hour, down, 0, job.Scheduled, 1, policy.ReasonError},
	} {
		s := memory.Open().Jobs()
		if _, err := job.NewClient(s).Enqueue(t.Context(), job.Request{Type: "x", MaxAttempts: c.max}); err != nil {
			t.Fatal(err)
		}
		from := source(t, s, jobs.SourceOptions{})
		got, err := from.Fetch(t.Context(), pipeline.FetchRequest{Max: 5})
		if err != nil || len(got) != 1 {
			t.Fatalf("%d, %v", len(got), err)
		}
		if err := from.Nack(t.Context(), got[0], c.delay, c.cause); err != nil {
			t.Fatal(err)
		}
		r := record(t, s)
		if r.State != c.state || r.Failures != c.attempts || r.Reason != c.reason {
			t.Errorf("%s: %s after %d attempts, %q", name, r.State, r.Failures, r.Reason)
		}
		if due := time.Until(r.RunAt); c.state == job.Scheduled && (due < 59*time.Minute || due > time.Hour) {
			t.Errorf("%s: due in %v", name, due)
		}
		if err := from.Nack(t.Context(), pipeline.Delivery{Transaction: got[0].Transaction, Token: 1}, 0, nil); err == nil {
			t.Errorf("%s: a foreign delivery was accepted", name)
		}
	}
}

func TestL11JobsWithoutAttemptsLeftAreDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.Open().Jobs()
		client := job.NewClient(s)
		for range 3 {
			if _, err := client.Enqueue(t.Context(), job.Request{Type: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		short := source(t, s, jobs.SourceOptions{Lease: time.Millisecond, MaxAttempts: 1, Poll: time.Millisecond})
		if got, err := short.Fetch(t.Context(), pipeline.FetchRequest{Max: 2}); err != nil || len(got) != 2 {
			t.Fatalf("%d, %v", len(got), err)
		}
		left := 0
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			got, err := short.Fetch(t.Context(), pipeline.FetchRequest{Max: 2, Wait: 10 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			left += len(got)
			stats, err := s.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if stats["default"].Dead == 3 {
				break
			}
		}
		stats, err := s.Stats(t.Context())
		if err != nil || left != 1 || stats["default"].Dead != 3 {
			t.Errorf("%d delivered, %+v, %v", left, stats, err)
		}
	})
}

// flaky fails the first settlements.
type flaky struct {
	job.Store
	refuse int
	calls  int
}

func (f *flaky) Settle(ctx context.Context, list []job.Settlement) []error {
	if f.calls++; f.calls <= f.refuse {
		errs := make([]error, len(list))
		for i := range errs {
			errs[i] = errors.New("busy")
		}
		return errs
	}
	return f.Store.Settle(ctx, list)
}

func TestL11SettlementsAreRepeated(t *testing.T) {
	s := memory.Open().Jobs()
	if _, err := job.NewClient(s).Enqueue(t.Context(), job.Request{Type: "x"}); err != nil {
		t.Fatal(err)
	}
	f := &flaky{Store: s, refuse: 2}
	from := source(t, f, jobs.SourceOptions{})
	got, err := from.Fetch(t.Context(), pipeline.FetchRequest{Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	if errs := from.Ack(t.Context(), got); errors.Join(errs...) != nil || f.calls != 3 || record(t, s).State != job.Completed {
		t.Errorf("%v after %d calls", errs, f.calls)
	}
	f.calls = 3
	if err := from.Nack(t.Context(), got[0], 0, nil); !errors.Is(err, job.ErrNotRunning) || f.calls != 4 {
		t.Errorf("%v after %d calls: a final error was retried", err, f.calls)
	}
	f.calls = 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := from.Nack(ctx, got[0], 0, nil); err == nil || f.calls != 1 {
		t.Errorf("%v after %d calls", err, f.calls)
	}
}

// TestAttemptsAreCarriedOver: a transaction whose attempts are exhausted becomes a job that counts on from them.
func TestAttemptsAreCarriedOver(t *testing.T) {
	s := memory.Open().Jobs()
	sink := jobs.NewSink(job.NewClient(s), jobs.SinkOptions{
		Type: "order", Retry: job.NewExponentialBackoff(policy.Retry{MaxAttempts: 10, InitialBackoff: time.Minute, MaxBackoff: time.Hour, Jitter: policy.JitterNone}),
	})
	put := pipeline.NewTransaction("order-1", []byte("{}"), pipeline.WithCorrelation("c"), pipeline.WithMetadata(map[string]string{
		pipeline.MetaTraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}))
	var p policy.Consumer
	p.Steps.Process.Retry = policy.Retry{MaxAttempts: 3, InitialBackoff: time.Millisecond}
	failing := pipeline.Handle(func(context.Context, *pipeline.Transaction) error {
		return errors.New("down")
	})
	start := time.Now()
	summary, err := pipeline.NewConsumer(pipeline.NewMemorySource(put), failing, p, pipeline.WithDeadLetter(sink)).Run(t.Context())
	if err != nil || summary.Exception != 1 {
		t.Fatalf("%+v, %v", summary, err)
	}
	r := record(t, s)
	if r.MaxAttempts != 7 || r.UniqueKey != "order/order-1" || r.Meta["trace_id"] != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("%+v", r)
	}
	if wait := r.RunAt.Sub(start).Round(time.Minute); wait != 4*time.Minute { // after three failures
		t.Errorf("the job starts after %v", wait)
	}
	back := jobs.FromJob(job.Job[[]byte]{ID: r.ID, Payload: r.Payload, Meta: r.Meta, Attempt: 2})
	if diff := cmp.Diff([]any{"order-1", "c", 4}, []any{back.ID(), back.Correlation(), back.Attempts()}); diff != "" {
		t.Error(diff)
	}
	if text := back.Metadata(pipeline.MetaError); !strings.Contains(text, "down") {
		t.Errorf("the error is %q", text)
	}
	if jobs.FromJob(job.Job[[]byte]{ID: "j", Attempt: 1}).ID() != "j" {
		t.Error("a job from another producer has no ID")
	}
}

// TestL4TransactionsOfOtherTypesWithTheSameIDBecomeJobsToo, in the same queue.
func TestL4TransactionsOfOtherTypesWithTheSameIDBecomeJobsToo(t *testing.T) {
	s := memory.Open().Jobs()
	client := job.NewClient(s)
	for jobType, id := range map[string]string{"order": "1", "payment": "1", "a": "b/c", "a/b": "c"} {
		x := pipeline.NewTransaction(id, nil)
		put(t, jobs.NewSink(client, jobs.SinkOptions{Type: jobType}), x, x)
	}
	records, err := s.List(t.Context(), job.Filter{}, "", 10)
	if err != nil || len(records) != 4 {
		t.Errorf("%d jobs, %v", len(records), err)
	}
}

func TestL3AnInvalidJobIsABusinessError(t *testing.T) {
	s := memory.Open().Jobs()
	client := job.NewClient(s, job.WithMaxPayload(10))
	sink := jobs.NewSink(client, jobs.SinkOptions{Type: "x", UniqueFor: -1})
	for _, x := range []*pipeline.Transaction{
		pipeline.NewTransaction("a", []byte("0123456789a")),
		pipeline.NewTransaction("b", nil, pipeline.WithMetadata(map[string]string{"large": strings.Repeat("x", 20<<10)})),
	} {
		if mark, _ := classify.MarkOf(sink.Dispatch(t.Context(), x)); mark != classify.MarkBusiness {
			t.Errorf("%s: mark %v", x.ID(), mark)
		}
	}
	strange := pipeline.NewTransaction("\x00"+strings.Repeat("ä", 600), nil, pipeline.WithMetadata(map[string]string{
		"k": "a\x00b", pipeline.MetaError: strings.Repeat("ä", 30_000),
	}))
	put(t, sink, strange, strange)
	if key := record(t, s).UniqueKey; !strings.HasPrefix(key, "sha256-") {
		t.Errorf("key %q", key)
	}
}

func TestNewSourceRejectsAnInvalidLease(t *testing.T) {
	var wrong *job.DurationError
	if _, err := jobs.NewSource(memory.Open().Jobs(), jobs.SourceOptions{Lease: -1}); !errors.As(err, &wrong) {
		t.Error(err)
	}
}
