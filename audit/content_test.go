package audit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

func TestA2SampledSuccessesAreCounted(t *testing.T) {
	for _, share := range []float64{-1, 0.25} {
		var sink MemorySink
		l := open(t, &sink, Options{Mode: Buffered, Sample: share})
		const calls = 2000
		for n := range calls {
			e := succeeded(fmt.Sprint("call-", n), 1)
			_ = l.Append(bg, e)
			l.Observe(bg, e)
		}
		l.Observe(bg, succeeded("retried", 2))
		flush(t, l)
		stats := l.Stats()
		closeLog(t, l)
		recorded, counted := only(sink.Events(), CallSucceeded), only(sink.Events(), CallCount)
		if len(counted) != 1 || counted[0].Count+uint64(len(recorded)) != calls+1 || stats.Counted != counted[0].Count {
			t.Fatalf("%d recorded, counted %+v", len(recorded), counted)
		}
		if want := int(max(share, 0) * calls); len(recorded) < want*8/10 || len(recorded) > want*12/10+1 {
			t.Errorf("share %v: %d of %d recorded", share, len(recorded), calls)
		}
		if recorded[len(recorded)-1].WorkID != "retried" {
			t.Error("a success after a retry is not recorded")
		}
		if c := counted[0]; c.Category != "RETRY_KV_GET" || c.Key != "user-service.GetUser" || c.PolicyRevision != getUser.Meta.Revision {
			t.Errorf("counted as %+v", c)
		}
	}
}

func TestA2CountsAreWrittenInIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sink MemorySink
		l := open(t, &sink, Options{Sample: -1, CountInterval: 10 * time.Second})
		l.Observe(bg, succeeded("call-1", 1))
		time.Sleep(11 * time.Second)
		counted := only(sink.Events(), CallCount)
		if len(counted) != 1 || counted[0].Count != 1 || counted[0].ElapsedNS.Duration() != 10*time.Second {
			t.Errorf("after an interval: %+v", counted)
		}
		closeLog(t, l)
		if n := len(only(sink.Events(), CallCount)); n != 1 {
			t.Errorf("%d counts; nothing was left to count", n)
		}
	})
}

func TestA1SnapshotBeforeFirstUseInEachSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &segmented{}
		l := open(t, sink, Options{})
		plain := policy.Policy{ID: "rev-1"} // not compiled: its revision is computed
		for n := range 6 {
			e := failed("call", n+1)
			if n%2 == 1 {
				e.Policy = &plain
			}
			appendTo(t, l, e)
			if n == 3 {
				sink.segment.Add(1)
			}
		}
		time.Sleep(snapshotLife + time.Second)
		_ = l.Append(bg, failed("call", 7))
		closeLog(t, l)
		var got []string
		names := map[string]string{getUser.Meta.Revision: "A", "": ""}
		for _, e := range sink.Events() {
			if names[e.PolicyRevision] == "" && e.PolicyRevision != "" {
				names[e.PolicyRevision] = "B"
			}
			got = append(got, string(e.Type)+" "+names[e.PolicyRevision])
		}
		want := []string{
			"chain_opened ", "policy_snapshot A", "retry_attempt A", "policy_snapshot B", "retry_attempt B", "retry_attempt A", "retry_attempt B",
			"policy_snapshot A", "retry_attempt A", "policy_snapshot B", "retry_attempt B", "policy_snapshot A", "retry_attempt A",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

type segmented struct {
	MemorySink
	segment atomic.Uint64
}

func (s *segmented) Segment(context.Context) (uint64, error) { return s.segment.Load(), nil }

// unsure is a sink that does not know its segment.
type unsure struct{ MemorySink }

func (s *unsure) Segment(context.Context) (uint64, error) { return 0, errSink }

func TestA1WithoutAKnownSegmentEveryBatchHasItsSnapshots(t *testing.T) {
	sink := &unsure{}
	l := open(t, sink, Options{})
	for n := range 2 {
		appendTo(t, l, failed("call", n+1))
	}
	closeLog(t, l)
	if n := len(only(sink.Events(), PolicySnapshot)); n != 2 {
		t.Errorf("%d snapshots, want one for each batch", n)
	}
}

func TestA3FirstEventHoldsTheHeadsInTheSink(t *testing.T) {
	var sink MemorySink
	for range 2 {
		l := open(t, &sink, Options{})
		_ = l.Append(bg, failed("call", 1))
		closeLog(t, l)
	}
	closeLog(t, open(t, &sink, Options{})) // writes nothing, so it opens no chain
	events := sink.Events()
	checkChains(t, events)
	first, second := events[2], events[3]
	if want := []Head{{first.ChainID, first.Seq, first.Hash}}; second.Type != ChainOpened || !cmp.Equal(want, second.Heads) {
		t.Errorf("second chain opened with %+v, want %+v", second.Heads, want)
	}
	if heads, _ := sink.Heads(bg); len(heads) != 2 {
		t.Errorf("%d chains", len(heads))
	}
	if _, err := Open(bg, headless{}, Options{}); !errors.Is(err, errSink) {
		t.Errorf("over a sink that does not know its heads: %v", err)
	}
}

func TestA6RedactionComesBeforeHashing(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{Redact: Redaction{
		Fields:   []string{"tenant_id", "attributes.email", "exception_type"},
		Patterns: []*regexp.Regexp{regexp.MustCompile(`\d{4}-\d{4}`)},
	}})
	e := failed("call", 1)
	attributes := map[string]string{"email": "ann@example.com", "card": "card 1234-5678", "limit": "10"}
	e.Decision.Err = errors.New("card 1234-5678 refused")
	e.Decision.Outcome.Attributes = attributes
	o := e.Decision.Outcome
	e.Decision.Facts.Classified = &o
	appendTo(t, l, e)
	closeLog(t, l)
	for _, line := range sink.lines {
		if s := string(line); strings.Contains(s, "1234-5678") || strings.Contains(s, "ann@") || strings.Contains(s, "tenant-1") {
			t.Errorf("stored: %s", s)
		}
	}
	events := sink.Events()
	checkChains(t, events)
	got := events[2]
	want := map[string]string{"email": Redacted, "card": "card [redacted]", "limit": "10"}
	if got.ExceptionMessage != "card [redacted] refused" || got.ExceptionType != Redacted || got.TenantID != Redacted || got.CorrelationID != "" ||
		!cmp.Equal(want, got.Attributes) || !cmp.Equal(want, got.Facts.Classified.Attributes) {
		t.Errorf("%+v", got)
	}
	if attributes["email"] != "ann@example.com" {
		t.Error("the observed event was changed")
	}
}

func TestA6RedactionComesBeforeTruncation(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{Redact: Redaction{Patterns: []*regexp.Regexp{regexp.MustCompile(`key-[a-z]{20}`)}}})
	e := failed("call", 1)
	e.Decision.Err = errors.New(strings.Repeat("x", longestText-10) + "key-abcdefghijklmnopqrst" + strings.Repeat("y", longestText))
	appendTo(t, l, e)
	closeLog(t, l)
	got := only(sink.Events(), RetryAttempt)[0].ExceptionMessage
	if want := strings.Repeat("x", longestText-10) + Redacted[:10] + "…"; got != want {
		t.Errorf("it ends with %q", got[len(got)-30:])
	}
}

func TestA6InvalidRulesAreRejected(t *testing.T) {
	for _, r := range []Redaction{
		{Fields: []string{"work_id"}}, {Fields: []string{"attributes."}}, {Fields: []string{"nothing"}}, {Patterns: []*regexp.Regexp{nil}},
	} {
		if _, err := Open(bg, &MemorySink{}, Options{Redact: r}); err == nil || !strings.Contains(err.Error(), "redact") {
			t.Errorf("%v: %v", r, err)
		}
	}
}

func TestA1OperatorsAndPolicyChanges(t *testing.T) {
	for _, mode := range []Mode{FailClosed, Buffered} {
		var sink MemorySink
		l := open(t, &sink, Options{Mode: mode})
		next := compiled(policy.Policy{ID: "rev-2", Key: getUser.Key, Retry: policy.Retry{MaxAttempts: 5}})
		for _, err := range []error{
			l.OperatorAction(bg, Operation{Actor: "ann", Action: "job_requeue", WorkID: "job-1", Key: policy.JobKey("emails", "send"), From: "dead", To: "ready"}),
			l.PolicyChanged(bg, PolicyChange{From: getUser, To: next, Actor: "ann", Detail: "more attempts"}),
			l.PolicyChanged(bg, PolicyChange{To: getUser, Actor: "ann"}),
			l.Record(bg, Event{Type: OperatorAction, Action: "imported"}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range []error{
			l.OperatorAction(bg, Operation{Actor: "ann"}), l.PolicyChanged(bg, PolicyChange{From: getUser, Actor: "ann"}), l.Record(bg, Event{}),
		} {
			if err == nil {
				t.Error("an incomplete action is accepted")
			}
		}
		closeLog(t, l)
		events := sink.Events()[1:]
		if e := events[0]; e.Actor != "ann" || e.Key != "job/emails.send" || e.Surface != "job" || e.Reason != policy.ReasonOperator || e.To != "ready" {
			t.Errorf("%+v", e)
		}
		e := events[1]
		p, err := e.Snapshot()
		if err != nil || p.Retry.MaxAttempts != 5 || p.Key != getUser.Key || e.From != getUser.Meta.Revision || e.To != next.Meta.Revision || e.PolicyRevision != e.To {
			t.Errorf("%v, %+v", err, e)
		}
		if e := events[3]; e.ID == "" || e.Time.IsZero() || e.Action != "imported" {
			t.Errorf("%+v", e)
		}
		checkChains(t, sink.Events())
		if err := l.Record(bg, Event{Type: OperatorAction}); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	}
}

func TestA1HedgesComeBeforeTheirDecision(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{Sample: -1})
	ran := func(n, hedge int, k classify.Kind) observe.AttemptRecord {
		return observe.AttemptRecord{
			Attempt: n, HedgeIndex: hedge, Start: start, End: start.Add(time.Second), Outcome: classify.Outcome{Kind: k}, BudgetAllowed: true,
		}
	}
	refused := ran(3, 2, classify.Abort)
	refused.Denied, refused.BudgetAllowed, refused.BudgetReason = true, false, policy.ReasonBudgetDenied
	hedging := compiled(policy.Policy{Key: getUser.Key, Hedge: policy.Hedge{Enabled: true}})
	for i, a := range []observe.AttemptRecord{refused, ran(2, 1, classify.Success), ran(1, 0, classify.Abort)} {
		e := attemptOf("call", i+1, a)
		e.Policy = hedging
		l.Observe(bg, e)
	}
	d := succeeded("call", 1)
	d.Policy = hedging
	d.Decision.Attempt, d.Decision.Group, d.Seq = 2, []int{2}, 4
	appendTo(t, l, d)
	closeLog(t, l)
	var got []string
	for _, e := range only(sink.Events(), Hedge, CallSucceeded) {
		got = append(got, fmt.Sprint(e.Type, " ", e.Attempt, "/", e.HedgeIndex, " ", e.OutcomeKind, " ", e.Denied, " ", e.TotalAttempts, " ", e.TookNS))
	}
	// A success whose hedges are recorded is recorded too, not only counted.
	want := []string{
		"hedge 3/2 abort true 0 1000000000", "hedge 2/1 success false 0 1000000000", "hedge 1/0 abort false 0 1000000000",
		"call_succeeded 2/1 success false 2 1000000000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestA2PanickedWorkIsAStop(t *testing.T) {
	var sink MemorySink
	l := open(t, &sink, Options{Mode: Buffered})
	hedge := attemptOf("call", 1, observe.AttemptRecord{Attempt: 3, HedgeIndex: 2, Outcome: classify.Outcome{Kind: classify.Retryable}, Err: errDown})
	l.Observe(bg, hedge)
	end := failed("call", 1)
	end.Type, end.Decision = observe.CallEnded, nil
	end.Timeline = &observe.Timeline{
		Reason: policy.ReasonPanicInOperation, FinalError: errDown, Start: start, End: start.Add(time.Second),
		Attempts: []observe.AttemptRecord{{Attempt: 1}, {Attempt: 2, Denied: true}, {Attempt: 3}},
	}
	l.Observe(bg, end)
	closeLog(t, l)
	events := sink.Events()[2:]
	if len(events) != 2 || events[0].Type != Hedge {
		t.Fatalf("%+v", events)
	}
	if e := events[1]; e.Type != CallStopped || e.Reason != policy.ReasonPanicInOperation || e.TotalAttempts != 2 || e.FinalExceptionMessage != "down" || e.Attempt != 3 {
		t.Errorf("%+v", e)
	}
}

func TestA2UnfinishedWorkIsEventuallyDropped(t *testing.T) {
	var p progress
	for n := range 5 * maxWorks {
		p.add(attemptOf(fmt.Sprint("call-", n), 1, observe.AttemptRecord{Attempt: 1}))
	}
	if n := len(p.works) + len(p.older); n > 2*maxWorks {
		t.Errorf("%d units of work are kept", n)
	}
	var w journaled
	for n := range 100_000 {
		w.add(failed(fmt.Sprint("call-", n), 1))
	}
	for i := range w.shards {
		if n := len(w.shards[i].counts); n > len(w.shards[i].order) {
			t.Errorf("%d decisions are remembered", n)
		}
	}
}
