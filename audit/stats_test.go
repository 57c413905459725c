package audit_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

func statistics(t testing.TB, s audit.Source) *audit.StatsReport {
	t.Helper()
	r, err := audit.Statistics(context.Background(), s, audit.Spill{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestA5FiguresOfACategory(t *testing.T) {
	p := compiled(t, "user.Get", func(p *policy.Policy) {
		p.Category = policy.APIRequest
		p.Retry = policy.Retry{MaxAttempts: 3, InitialBackoff: time.Second, MaxBackoff: time.Minute, Jitter: policy.JitterNone}
	})
	r := newRecording(t, 1)
	r.snapshot(p)
	r.call(p, attempts{{decision.Facts{}, 1}}, "")
	r.call(p, attempts{{failed, 1}, {decision.Facts{}, 1}}, "")
	r.call(p, attempts{{failed, 1}, {failed, 1}, {failed, 1}}, "")
	r.call(p, attempts{{failed, 1}}, "") // its end is missing
	for i := range r.events {
		r.events[i].Category = policy.APIRequest.Code()
		r.events[i].Time = begin.Add(time.Duration(i) * 20 * time.Second)
	}
	hedge := audit.Event{Type: audit.Hedge, Key: p.Key.String(), WorkID: eventID(2), HedgeIndex: 1, Attempt: 2, Category: policy.APIRequest.Code()}
	r.add(hedge)
	hedge.HedgeIndex = 0 // a primary
	r.add(hedge)
	hedge.HedgeIndex, hedge.Denied = 2, true
	r.add(hedge)
	counted := r.add(audit.Event{Type: audit.CallCount, Category: policy.APIRequest.Code(), Count: 6})
	lost := r.add(audit.Event{Type: audit.CallCount, Lost: 3})
	lost.Time, counted.Time = begin, begin.Add(4*time.Minute)
	for i := len(r.events) - 5; i < len(r.events)-2; i++ {
		r.events[i].Time = begin.Add(time.Minute)
	}
	log := chained(t, "a", r.events)
	log = append(log, log[1:4]...) // redelivered
	got := statistics(t, log)
	share := func(f float64) *float64 { return &f }
	want := audit.CategoryStats{
		Category: "RETRY_API_REQUEST", Calls: 10, Succeeded: 8, Failed: 1, Unfinished: 1, Attempts: 14, Retries: 4, Hedges: 1,
		SuccessRate: share(8.0 / 9), AverageAttempts: share(1.3), Amplification: share(1.4),
		Waiting: audit.Seconds(5 * time.Second), MeanDelay: audit.Seconds(1250 * time.Millisecond), MaxDelay: audit.Seconds(2 * time.Second),
		MaxRate: 2, MeanRate: 1,
	}
	if len(got.Categories) != 1 {
		t.Fatalf("categories %+v", got.Categories)
	}
	if diff := cmp.Diff(want, got.Categories[0]); diff != "" {
		t.Error(diff)
	}
	want.Category = ""
	if diff := cmp.Diff(want, got.Total); diff != "" {
		t.Error(diff)
	}
	if got.Lost != 3 || got.Duplicates != 3 || !got.From.Equal(begin) || !got.To.Equal(begin.Add(4*time.Minute)) {
		t.Errorf("%+v", got)
	}
}

func TestA5EachStepOfATransactionIsCounted(t *testing.T) {
	r := newRecording(t, 1)
	for i, e := range []audit.Event{
		{Type: audit.RetryAttempt, Key: "process", Decision: "retry", StateNumber: 1},
		{Type: audit.RetryExhausted, Key: "process", Decision: "stop", StateNumber: 2},
		{Type: audit.CallSucceeded, Key: "exception", Decision: "done", StateNumber: 1},
	} {
		e.WorkID, e.WorkSeq = "order-1", i+1
		r.add(e)
	}
	got := statistics(t, chained(t, "a", r.events)).Total
	if got.Calls != 2 || got.Succeeded != 1 || got.Failed != 1 || got.Attempts != 3 {
		t.Errorf("a failed step with a handled failure: %+v", got)
	}
}

func TestA5StatisticsDoNotDependOnTheOrder(t *testing.T) {
	log, r := recorded(t, 10, 500)
	want := statistics(t, log)
	if want.Total.Calls != uint64(r.work) || want.Total.Retries == 0 || want.Total.Hedges == 0 {
		t.Fatalf("%+v", want.Total)
	}
	shuffled := slices.Clone(log)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(log), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if diff := cmp.Diff(want, statistics(t, shuffled)); diff != "" {
		t.Error(diff)
	}
	if raw, err := json.Marshal(statistics(t, lines{})); err != nil || len(raw) == 0 {
		t.Errorf("an empty log: %s %v", raw, err)
	}
}

func TestA5AlertsFire(t *testing.T) {
	share := func(f float64) *float64 { return &f }
	r := &audit.StatsReport{Categories: []audit.CategoryStats{
		{Category: "A", MaxRate: 120, MeanRate: 2, SuccessRate: share(0.8), Amplification: share(2.5), AverageAttempts: share(2), MaxDelay: audit.Seconds(3 * time.Second), Calls: 7},
		{Category: "B", MaxRate: 100},
	}}
	cases := map[string][]string{
		"rate>100/min": {"A"}, "rate>=100/min": {"A", "B"}, "rate>1/s": {"A", "B"}, "rate>7199/h": {"A"}, "rate>200": nil, "mean_rate>1/min": {"A"},
		"success_rate<0.9": {"A"}, "success_rate < 90%": {"A"}, "success_rate<0.8": nil, "success_rate<=80%": {"A"},
		"amplification>2": {"A"}, "average_attempts>=2": {"A"}, "max_delay>2.5s": {"A"}, "calls>=7": {"A"},
	}
	for text, want := range cases {
		a, err := audit.ParseAlert(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, f := range r.Check(a) {
			if f.Category != "" {
				got = append(got, f.Category)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for _, text := range []string{"", "rate", "rate=100", "rate>", "speed>1", "rate>many", "rate>1/year", "max_delay>5", "success_rate<x%", "success_rate<NaN", "rate>inf"} {
		if _, err := audit.ParseAlert(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	r.Total.MaxRate = 220
	a, _ := audit.ParseAlert("rate>200/min")
	if got := r.Check(a); len(got) != 1 || got[0].Category != "" || got[0].Value != 220 {
		t.Errorf("total: %+v", got)
	}
}

func TestA5AReplayedResultIsASuccessWithoutAttempts(t *testing.T) {
	r := newRecording(t, 1)
	for _, e := range []audit.Event{
		{Type: audit.Idempotency, Action: "record", WorkID: "first"},
		{Type: audit.CallSucceeded, Decision: "done", StateNumber: 1, WorkID: "first", WorkSeq: 1},
		{Type: audit.Idempotency, Action: "hit", WorkID: "second", Category: "RETRY_KV_PUT"},
		{Type: audit.Idempotency, Action: "hit", WorkID: "job"}, // whose handler then succeeded
		{Type: audit.CallSucceeded, Decision: "done", StateNumber: 1, WorkID: "job", WorkSeq: 1},
		{Type: audit.Idempotency, Action: "hit", WorkID: "permanent failure"},
		{Type: audit.CallStopped, Decision: "stop", WorkID: "permanent failure", WorkSeq: 1},
		{Type: audit.Idempotency, Action: "hit"}, // a server's middleware
	} {
		r.add(e)
	}
	got := statistics(t, chained(t, "a", r.events))
	if total := got.Total; total.Calls != 4 || total.Succeeded != 3 || total.Failed != 1 || total.Attempts != 2 {
		t.Errorf("total %+v", total)
	}
	if put := got.Categories[1]; put.Category != "RETRY_KV_PUT" || put.Calls != 1 || put.Succeeded != 1 || put.Attempts != 0 || *put.SuccessRate != 1 {
		t.Errorf("the replayed call %+v", put)
	}
}

func TestA5EachStepOfAPipelineHasItsOwnFigures(t *testing.T) {
	r := newRecording(t, 1)
	step := func(name, work, decision string) {
		e := audit.Event{
			Type: audit.CallSucceeded, Surface: "step", Key: "consumer/orders." + name, WorkID: work, WorkSeq: 1, Decision: decision, StateNumber: 1,
		}
		if decision == "stop" {
			e.Type = audit.CallStopped
		}
		r.add(e)
	}
	for _, id := range []string{"1", "2", "3"} {
		step("fetch", "fetch "+id, "done")
		step("process", id, "stop")
		step("exception", id, "done")
	}
	r.add(audit.Event{Type: audit.CallCount, Surface: "step", Key: "consumer/orders.fetch", Count: 7})
	r.add(audit.Event{Type: audit.CallSucceeded, Surface: "call", Key: "user.Get", WorkID: "call", WorkSeq: 1, Decision: "done", StateNumber: 1})
	got := statistics(t, chained(t, "a", r.events))
	type figures struct {
		step        string
		calls       uint64
		successRate float64
	}
	var rows []figures
	for _, c := range append(got.Categories, got.Total) {
		rows = append(rows, figures{c.Step, c.Calls, *c.SuccessRate})
	}
	want := []figures{
		{"", 1, 1}, {"consumer/orders.exception", 3, 1}, {"consumer/orders.fetch", 10, 1}, {"consumer/orders.process", 3, 0},
		{"", 4, 0.25}, // the total: the call and the transactions
	}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %v, want %v", rows, want)
	}
	alert, err := audit.ParseAlert("success_rate<0.2")
	if err != nil {
		t.Fatal(err)
	}
	if fired := got.Check(alert); len(fired) != 1 || fired[0].Step != "consumer/orders.process" {
		t.Errorf("fired %+v", fired)
	}
}

// TestA5AJobThatRanAgainHasTheAttemptsOfAllItsRuns: an operator's retry counts the attempts of a job from 1 again. What its handler or
// an operator made of a job after a decision is in the transition that follows.
func TestA5AJobThatRanAgainHasTheAttemptsOfAllItsRuns(t *testing.T) {
	retry := audit.Event{Type: audit.RetryAttempt, Decision: "retry", MatchedRule: "default", StateNumber: 1}
	done := audit.Event{Type: audit.CallSucceeded, Decision: "done", MatchedRule: "success", StateNumber: 1}
	stop := audit.Event{Type: audit.RetryExhausted, Decision: "stop", MatchedRule: "default", StateNumber: 2}
	refused := audit.Event{Type: audit.CallStopped, Decision: "stop", Reason: policy.ReasonBudgetDenied, StateNumber: 1}
	to := func(state string, attempts int) audit.Event {
		return audit.Event{Type: audit.JobTransition, To: state, Reason: policy.ReasonError, TotalAttempts: attempts}
	}
	type counts struct{ attempts, retries, succeeded, failed, unfinished uint64 }
	for name, c := range map[string]struct {
		events []audit.Event
		want   counts
	}{
		"dead twice":               {[]audit.Event{retry, stop, to("dead", 2), retry, to("scheduled", 1), stop, to("dead", 2)}, counts{4, 2, 0, 1, 0}},
		"dead, then completed":     {[]audit.Event{retry, stop, to("dead", 2), done}, counts{3, 1, 1, 0, 0}},
		"completed twice":          {[]audit.Event{done, done}, counts{2, 0, 1, 0, 0}},
		"cancelled while it waits": {[]audit.Event{retry, to("scheduled", 1), done}, counts{2, 1, 1, 0, 0}},
		"snoozed, then completed":  {[]audit.Event{done, to("scheduled", 0), done}, counts{1, 0, 1, 0, 0}},
		"snoozed":                  {[]audit.Event{done, to("scheduled", 0)}, counts{1, 0, 0, 0, 1}},
		"cancelled by its handler": {[]audit.Event{done, to("cancelled", 1)}, counts{1, 0, 0, 1, 0}},
		"lost":                     {[]audit.Event{to("dead", 1)}, counts{1, 0, 0, 1, 0}},
		"lost twice":               {[]audit.Event{to("dead", 1), to("dead", 1)}, counts{2, 0, 0, 1, 0}},
		"lost, then dead again":    {[]audit.Event{to("dead", 1), done, to("dead", 1)}, counts{2, 0, 0, 1, 0}},
		"refused":                  {[]audit.Event{retry, to("scheduled", 1), refused, to("scheduled", 1)}, counts{1, 1, 0, 0, 1}},
	} {
		r := newRecording(t, 1)
		for i, e := range c.events {
			e.Surface, e.WorkID, e.WorkSeq = "job", "job-1", i+1
			r.add(e)
		}
		log := chained(t, "a", r.events)
		s := statistics(t, log).Total
		if got := (counts{s.Attempts, s.Retries, s.Succeeded, s.Failed, s.Unfinished}); got != c.want || s.Calls != 1 {
			t.Errorf("%s: %+v of %d calls", name, got, s.Calls)
		}
		story, err := audit.Explain(t.Context(), log, "job-1")
		if err != nil || story.Attempts != int(c.want.attempts) || (story.Result == "done") != (c.want.succeeded == 1) || (story.Result == "stop") != (c.want.failed == 1) {
			t.Errorf("%s: explained as %+v, %v", name, story, err)
		}
	}
}

// TestA5ATransitionOfAPipelinesJobIsNoPartOfItsSteps: the number of the transition is that of the job, not of the transaction.
func TestA5ATransitionOfAPipelinesJobIsNoPartOfItsSteps(t *testing.T) {
	lost := audit.Event{Type: audit.JobTransition, Surface: "job", Key: "job/mail.send", To: "scheduled", Reason: policy.ReasonLeaseExpired, TotalAttempts: 7}
	dead := lost
	dead.To = "dead"
	again := audit.Event{Type: audit.RetryAttempt, Surface: "step", Key: "consumer/c.process", Decision: "retry", MatchedRule: "default", StateNumber: 1}
	done := audit.Event{Type: audit.CallSucceeded, Surface: "step", Key: "consumer/c.process", Decision: "done", MatchedRule: "success", StateNumber: 2}
	r := newRecording(t, 1)
	for i, e := range []audit.Event{lost, again, lost, done, dead} {
		e.WorkID, e.WorkSeq = "job-1", i+1
		r.add(e)
	}
	if s := statistics(t, chained(t, "a", r.events)).Total; s.Calls != 1 || s.Attempts != 2 || s.Succeeded != 1 {
		t.Errorf("%+v", s)
	}
}

// TestA5AJobThatSamplingCountedIsCountedOnce: of a first attempt whose handler cancelled the job, only the transition is on record.
func TestA5AJobThatSamplingCountedIsCountedOnce(t *testing.T) {
	r := newRecording(t, 1)
	r.add(audit.Event{Type: audit.CallCount, Surface: "job", Count: 1})
	r.add(audit.Event{Type: audit.JobTransition, Surface: "job", WorkID: "job-1", WorkSeq: 1, To: "cancelled", Reason: policy.ReasonCanceled, TotalAttempts: 1})
	if s := statistics(t, chained(t, "a", r.events)).Total; s.Calls != 1 || s.Attempts != 1 {
		t.Errorf("%+v", s)
	}
}

// TestA5AnOperationThatPanickedRan: the end of work that panicked has only the number of all attempts.
func TestA5AnOperationThatPanickedRan(t *testing.T) {
	r := newRecording(t, 1)
	for i, e := range []audit.Event{
		{Type: audit.RetryAttempt, Decision: "retry", MatchedRule: "default", StateNumber: 1},
		{Type: audit.CallStopped, Decision: "stop", Reason: policy.ReasonPanicInOperation, TotalAttempts: 2},
	} {
		e.Surface, e.WorkID, e.WorkSeq = "call", "a", i+1
		r.add(e)
	}
	if got := statistics(t, chained(t, "a", r.events)).Total; got.Attempts != 2 || got.Failed != 1 {
		t.Errorf("%+v", got)
	}
}
