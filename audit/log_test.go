package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

var (
	bg      = context.Background()
	errDown = errors.New("down")
	errSink = errors.New("sink unreachable")
)

// flaky is a sink that can be down. Every second failed append has stored its entries nevertheless.
type flaky struct {
	MemorySink
	down  atomic.Bool
	fails atomic.Int32
}

func (s *flaky) Append(ctx context.Context, entries []Entry) error {
	if !s.down.Load() {
		return s.MemorySink.Append(ctx, entries)
	}
	if s.fails.Add(1)%2 == 0 {
		_ = s.MemorySink.Append(ctx, entries)
	}
	return errSink
}

func open(t testing.TB, sink Sink, o Options) *Log {
	t.Helper()
	l, err := Open(bg, sink, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t testing.TB, l *Log, e *observe.Event) {
	t.Helper()
	if err := l.Append(bg, e); err != nil {
		t.Fatal(err)
	}
}

func flush(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Flush(bg); err != nil {
		t.Fatal(err)
	}
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(bg); err != nil {
		t.Error(err)
	}
}

var getUser = compiled(policy.Policy{ID: "rev-1", Key: policy.ParseKey("user-service.GetUser")})

func compiled(p policy.Policy) *policy.Policy {
	c, err := policy.Compile(p, policy.CallLimits(), policy.SourceStatic)
	if err != nil {
		panic(err)
	}
	return c
}

// failed is the decision to retry after attempt n of some work.
func failed(work string, n int) *observe.Event {
	return decisionOf(work, n, errDown, decision.Verdict{Action: decision.Retry, Delay: 43817 * time.Microsecond, Reason: policy.ReasonRetry})
}

func decisionOf(work string, n int, err error, v decision.Verdict) *observe.Event {
	d := &observe.Decision{
		State: decision.State{Surface: policy.SurfaceCall, Attempt: n, Left: decision.Unbounded}, Verdict: v, Attempt: n, Err: err,
		Elapsed: 12 * time.Millisecond, Facts: decision.Facts{Failed: err != nil},
	}
	d.Outcome, d.Rule = decision.Judge(&getUser.Retry, &d.Facts)
	return &observe.Event{
		Type: observe.Decided, Time: time.Now(), Seq: 2 * n, Policy: getUser, Decision: d,
		Work: observe.Work{ID: work, Key: getUser.Key, Surface: policy.SurfaceCall, Category: policy.KVGet, TenantID: "tenant-1"},
	}
}

func succeeded(work string, n int) *observe.Event {
	return decisionOf(work, n, nil, decision.Verdict{Action: decision.Done, Reason: policy.ReasonSuccess})
}

func attemptOf(work string, seq int, a observe.AttemptRecord) *observe.Event {
	e := failed(work, 1)
	e.Type, e.Seq, e.Decision, e.Attempt = observe.AttemptEnded, seq, nil, &a
	return e
}

// checkChains checks that the stored events are complete chains without repetitions.
func checkChains(t testing.TB, events []Event) {
	t.Helper()
	ends, ids := map[string]Head{}, map[string]bool{}
	for i := range events {
		e := &events[i]
		last := ends[e.ChainID]
		if e.Seq != last.Seq+1 || e.PrevHash != last.Hash {
			t.Fatalf("event %d of chain %s follows %d", e.Seq, e.ChainID, last.Seq)
		}
		if first := e.Seq == 1; first != (e.Type == ChainOpened) {
			t.Errorf("event %d is %s", e.Seq, e.Type)
		}
		if ids[e.ID] {
			t.Errorf("event %s is stored twice", e.ID)
		}
		ids[e.ID] = true
		ends[e.ChainID] = Head{e.ChainID, e.Seq, e.Hash}
	}
}

func only(events []Event, types ...Type) []Event {
	var list []Event
	for _, e := range events {
		for _, t := range types {
			if e.Type == t {
				list = append(list, e)
			}
		}
	}
	return list
}

func TestA2FailClosedAcknowledgesOnceStored(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{})
	for n := range 3 {
		appendTo(t, l, failed("call-1", n+1))
		if got := len(only(sink.Events(), RetryAttempt)); got != n+1 {
			t.Fatalf("%d events stored after %d acknowledgements", got, n+1)
		}
	}
	closeLog(t, l)
	checkChains(t, sink.Events())
}

func TestA2FailClosedRefusesWhileTheSinkIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &flaky{}
		sink.down.Store(true)
		var reports []string
		l := open(t, sink, Options{Timeout: 2 * time.Second, Reports: observe.Func(func(_ context.Context, e *observe.Event) {
			reports = append(reports, fmt.Sprint(e.Type, " ", e.Report.Reason, " ", e.Report.Detail))
		})})
		begun := time.Now()
		err := l.Append(bg, failed("call-1", 1))
		if !errors.Is(err, ErrTimeout) || !errors.Is(err, errSink) || time.Since(begun) != 2*time.Second {
			t.Errorf("refused after %v: %v", time.Since(begun), err)
		}
		const later = "the event may still be stored"
		if !strings.Contains(err.Error(), later) {
			t.Errorf("the refusal of an event that is stored later: %v", err)
		}
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if err := l.Append(ctx, failed("call-2", 1)); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), later) {
			t.Errorf("with a context that ends: %v", err)
		}
		if got := l.Stats().Failing; !errors.Is(got, errSink) {
			t.Errorf("failing: %v", got)
		}
		sink.down.Store(false)
		closeLog(t, l)
		// The writer had already taken call-1, so it is stored; call-2 was withdrawn.
		events := only(sink.Events(), RetryAttempt)
		if len(events) != 1 || events[0].WorkID != "call-1" {
			t.Errorf("stored: %+v", events)
		}
		if want := []string{"reported audit_unavailable the sink fails: sink unreachable"}; !cmp.Equal(want, reports) {
			t.Errorf("reports %q", reports)
		}
	})
}

// TestR13ARefusedDecisionIsRecordedAsAStop: if the log refuses a decision, the executor stops and reports the
// stop to the observer.
func TestR13ARefusedDecisionIsRecordedAsAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &flaky{}
		sink.down.Store(true)
		l := open(t, sink, Options{Timeout: time.Second})
		blocker := failed("call-0", 1) // the batch that the writer has taken
		go func() { _ = l.Append(bg, blocker) }()
		synctest.Wait()
		for _, work := range []string{"call-1", "call-2"} {
			e := failed(work, 1)
			if work == "call-2" {
				e = succeeded(work, 1)
			}
			if err := l.Append(bg, e); err == nil {
				t.Fatal("not refused")
			}
			changed, d := *e, *e.Decision
			if d.Verdict.Action != decision.Done {
				d.Verdict = decision.Verdict{Action: decision.Stop, Reason: policy.ReasonAuditUnavailable}
			}
			changed.Decision = &d
			l.Observe(bg, &changed)
		}
		sink.down.Store(false)
		closeLog(t, l)
		var got []string
		for _, e := range only(sink.Events(), RetryAttempt, CallStopped, CallSucceeded) {
			got = append(got, fmt.Sprint(e.WorkID, " ", e.Type, " ", e.Reason))
		}
		want := []string{"call-0 retry_attempt retry", "call-1 call_stopped audit_unavailable", "call-2 call_succeeded success"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestA2SinkDownForAMinute: 16 callers continue while the sink is down; some of its failures have stored the batch.
func TestA2SinkDownForAMinute(t *testing.T) {
	many := 16
	if testing.Short() {
		many = 6
	}
	for _, mode := range []Mode{FailClosed, Outbox, Buffered} {
		t.Run(string(mode), func(t *testing.T) {
			dir := ""
			if mode == Outbox {
				dir = t.TempDir()
			}
			synctest.Test(t, func(t *testing.T) {
				sink := &flaky{}
				l := open(t, sink, Options{Mode: mode, Timeout: 2 * time.Minute, Buffer: 30 * many, Outbox: dir})
				var submitted, acknowledged atomic.Uint64
				var callers sync.WaitGroup
				for c := range many {
					callers.Go(func() {
						for n := range 90 {
							e := failed(fmt.Sprintf("call-%d-%d", c, n), 1)
							submitted.Add(1)
							if mode == Buffered {
								l.Observe(bg, e)
							} else if err := l.Append(bg, e); err == nil {
								acknowledged.Add(1)
								l.Observe(bg, e)
							}
							time.Sleep(time.Second)
						}
					})
				}
				time.Sleep(10*time.Second + time.Millisecond)
				sink.down.Store(true)
				time.Sleep(time.Minute)
				if n := sink.fails.Load(); n < 10 {
					t.Fatalf("the sink failed %d times only", n)
				}
				sink.down.Store(false)
				callers.Wait()
				flush(t, l)
				stats := l.Stats()
				closeLog(t, l)

				events := sink.Events()
				checkChains(t, events)
				stored := uint64(len(only(events, RetryAttempt)))
				if mode != Buffered {
					if stored != submitted.Load() || acknowledged.Load() != submitted.Load() || stats.Lost != 0 {
						t.Errorf("%d submitted, %d acknowledged, %d stored, %d lost", submitted.Load(), acknowledged.Load(), stored, stats.Lost)
					}
					return
				}
				var told uint64
				for _, e := range only(events, CallCount) {
					told += e.Lost
				}
				if stored+told != submitted.Load() || told == 0 || told != stats.Lost {
					t.Errorf("%d submitted, %d stored, %d reported as lost, %d counted", submitted.Load(), stored, told, stats.Lost)
				}
			})
		})
	}
}

func TestA2OutboxResumesAfterRestart(t *testing.T) {
	dir := t.TempDir()
	sink := &flaky{}
	sink.down.Store(true)
	options := Options{Mode: Outbox, Outbox: dir}
	l := open(t, sink, options)
	for n := range 700 { // more than one batch of the forwarder
		l.Observe(bg, failed(fmt.Sprint("call-", n), 1))
	}
	appendTo(t, l, failed("last", 1))
	if _, err := Open(bg, sink, options); !errors.Is(err, ErrLocked) {
		t.Errorf("a second process opens the outbox: %v", err)
	}
	closeLog(t, l)
	if n := len(only(sink.Events(), RetryAttempt)); n >= 701 {
		t.Fatalf("%d events exist before the restart", n)
	}

	sink.down.Store(false)
	l = open(t, sink, options)
	flush(t, l)
	if n := len(only(sink.Events(), RetryAttempt)); n != 701 {
		t.Errorf("%d events after the restart", n)
	}
	appendTo(t, l, failed("next", 1))
	closeLog(t, l)
	checkChains(t, sink.Events())
	opened := only(sink.Events(), ChainOpened)
	if len(opened) != 2 || len(opened[1].Heads) != 1 || opened[1].Heads[0].ChainID != opened[0].ChainID {
		t.Errorf("opened: %+v", opened)
	}
	if n := l.Stats().Stored; n != 3 { // chain_opened, policy_snapshot, next
		t.Errorf("%d events went through the second log", n)
	}
}

// TestA2OutboxForwardsAgainUnderTheSameIDs loses the file that says what was forwarded.
func TestA2OutboxForwardsAgainUnderTheSameIDs(t *testing.T) {
	dir := t.TempDir()
	var sink MemorySink
	l := open(t, &sink, Options{Mode: Outbox, Outbox: dir})
	for n := range 10 {
		l.Observe(bg, failed(fmt.Sprint("call-", n), 1))
	}
	closeLog(t, l)
	if err := os.Remove(filepath.Join(dir, "forwarded.json")); err != nil {
		t.Fatal(err)
	}
	l = open(t, &sink, Options{Mode: Outbox, Outbox: dir})
	flush(t, l)
	closeLog(t, l)
	if n := len(only(sink.Events(), RetryAttempt)); n != 10 {
		t.Errorf("%d events", n)
	}
}

func TestA2ADecisionReportedTwiceIsRecordedOnce(t *testing.T) {
	for _, mode := range []Mode{FailClosed, Buffered} {
		var sink MemorySink
		l := open(t, &sink, Options{Mode: mode})
		frozen := start
		for range 3 { // three calls with the same times and IDs
			e := failed("same", 1)
			e.Time = frozen
			appendTo(t, l, e)
			l.Observe(bg, e)
		}
		l.Observe(bg, failed("unjournaled", 1))
		closeLog(t, l)
		if n := len(only(sink.Events(), RetryAttempt)); n != 4 {
			t.Errorf("%s: %d events, want 4", mode, n)
		}
	}
}

type headless struct{ lost }

func (headless) Heads(context.Context) ([]Head, error) { return nil, errSink }

func TestA2InvalidOptionsAreRejected(t *testing.T) {
	for _, o := range []Options{{Mode: "sometimes"}, {Mode: Outbox}, {Outbox: "somewhere"}, {Mode: Outbox, Outbox: "/dev/null/x"}} {
		if _, err := Open(bg, &MemorySink{}, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestA2CloseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, lost{}, Options{Timeout: time.Second})
		for n := range 3 {
			l.Observe(bg, failed("call", n+1))
		}
		go func() {
			if err := l.Append(bg, failed("call", 4)); !errors.Is(err, ErrClosed) && !errors.Is(err, ErrTimeout) {
				t.Errorf("the waiting call gets %v", err)
			}
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(bg, 500*time.Millisecond)
		defer cancel()
		err := l.Close(ctx)
		if err == nil || !strings.Contains(err.Error(), "4 events were not stored") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		if cause := l.Stats().Failing; cause == nil || !errors.Is(err, cause) {
			t.Errorf("close: %v, without the sink's error: %v", err, cause)
		}
		if n := l.Stats().Lost; n != 4 {
			t.Errorf("%d lost", n)
		}
		if err := l.Append(bg, failed("call", 5)); !errors.Is(err, ErrClosed) {
			t.Errorf("append after close: %v", err)
		}
		l.Observe(bg, failed("call", 6))
		if n := l.Stats().Lost; n != 5 {
			t.Errorf("%d lost after close", n)
		}
		if err := l.Flush(bg); !errors.Is(err, ErrClosed) {
			t.Errorf("flush after close: %v", err)
		}
		_ = l.Close(bg)
	})
}

// lost is a sink that discards everything.
type lost struct{}

func (lost) Append(context.Context, []Entry) error { return errSink }
func (lost) Heads(context.Context) ([]Head, error) { return nil, nil }
func (lost) Close() error                          { return nil }

func TestA2FlushWaitsForTheSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &flaky{}
		l := open(t, sink, Options{Mode: Buffered})
		l.Observe(bg, failed("call", 1))
		if err := l.Flush(bg); err != nil || len(sink.Events()) != 3 {
			t.Fatalf("%v, %d events", err, len(sink.Events()))
		}
		sink.down.Store(true)
		l.Observe(bg, failed("call", 2))
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the sink is down: %v", err)
		}
		sink.down.Store(false)
		closeLog(t, l)
	})
}

func TestA2PanicsOfCallbacksDoNotStopTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &panicking{}
		l := open(t, sink, Options{Reports: observe.Func(func(context.Context, *observe.Event) { panic("observer") })})
		e := failed("call", 1)
		e.Decision.Err = (*broken)(nil)
		appendTo(t, l, e)
		closeLog(t, l)
		got := only(sink.Events(), RetryAttempt)[0]
		if got.ExceptionType != "*audit.broken" || !strings.Contains(got.ExceptionMessage, "panic in the error's method") {
			t.Errorf("%q: %q", got.ExceptionType, got.ExceptionMessage)
		}
	})
}

type broken struct{ text string }

func (b *broken) Error() string { return b.text }

type panicking struct {
	MemorySink
	calmed bool
}

func (s *panicking) Append(ctx context.Context, entries []Entry) error {
	if !s.calmed {
		s.calmed = true
		panic("sink")
	}
	return s.MemorySink.Append(ctx, entries)
}

func TestA2AFullBufferBlocksOrDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &flaky{}
		sink.down.Store(true)
		l := open(t, sink, Options{Buffer: 1, Timeout: time.Second})
		l.Observe(bg, failed("in hand", 1))
		synctest.Wait()
		l.Observe(bg, failed("queued", 1))
		begun := time.Now()
		l.Observe(bg, failed("without room", 1))
		if took := time.Since(begun); took != time.Second || l.Stats().Lost != 1 {
			t.Errorf("blocked for %v, %d lost", took, l.Stats().Lost)
		}
		ctx, cancel := context.WithTimeout(bg, time.Millisecond)
		defer cancel()
		if err := l.Append(ctx, failed("without room", 2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("append: %v", err)
		}
		if err := l.Record(bg, Event{Type: OperatorAction}); !errors.Is(err, ErrTimeout) || !errors.Is(err, errSink) {
			t.Errorf("record: %v", err)
		}
		sink.down.Store(false)
		closeLog(t, l)
		if events := only(sink.Events(), CallCount); len(events) != 1 || events[0].Lost != 1 {
			t.Errorf("the loss is reported as %+v", events)
		}
	})
}

// TestA2AGuardsEventIsStoredBeforeTheCallContinues checks that a guard's event blocks the call until it is stored or the timeout
// ends; the log cannot refuse it.
func TestA2AGuardsEventIsStoredBeforeTheCallContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &flaky{}
		l := open(t, sink, Options{Timeout: time.Second})
		hit := &observe.Event{
			Type: observe.Idempotent, Time: time.Now(), Work: observe.Work{Key: getUser.Key},
			Idempotency: &observe.IdempotencyAction{Tenant: "t", Operation: "charge", Key: "k", Action: "hit", Fence: 3, Attempts: 2, Detail: "d"},
		}
		l.Observe(bg, hit)
		got := only(sink.Events(), Idempotency)
		if len(got) != 1 || got[0].Action != "hit" || got[0].TenantID != "t" || got[0].Operation != "charge" || got[0].IdempotencyKey != "k" ||
			got[0].Fence != 3 || got[0].TotalAttempts != 2 || got[0].Detail != "d" {
			t.Fatalf("%+v", got)
		}
		sink.down.Store(true)
		begun := time.Now()
		l.Observe(bg, hit)
		l.Observe(bg, hit) // the log already knows that the sink fails
		if took := time.Since(begun); took != time.Second {
			t.Errorf("blocked for %v", took)
		}
		sink.down.Store(false)
		closeLog(t, l)
		if n := len(only(sink.Events(), Idempotency)); n != 3 {
			t.Errorf("%d events", n)
		}
	})
}

func TestALogNeedsASink(t *testing.T) {
	if _, err := Open(context.Background(), nil, Options{}); err == nil {
		t.Error("no error")
	}
}
