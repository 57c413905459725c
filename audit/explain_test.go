package audit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

func TestA4StoryOfAWork(t *testing.T) {
	p := compiled(t, "user.Get", func(p *policy.Policy) {
		p.Retry = policy.Retry{MaxAttempts: 4, InitialBackoff: time.Second, MaxBackoff: 2 * time.Second, Jitter: policy.JitterNone, TimeoutPerAttempt: time.Second}
	})
	r := newRecording(t, 1)
	r.snapshot(p)
	late := decision.Facts{Failed: true, TimedOut: true}
	asked := decision.Facts{Failed: true, Mark: classify.MarkAfter, Pushback: 9 * time.Second}
	r.call(p, attempts{{failed, 1}, {late, 1}, {asked, 1}, {failed, 1}}, "")
	r.call(p, attempts{{decision.Facts{}, 1}}, "")
	r.add(audit.Event{Type: audit.Idempotency, WorkID: eventID(1), WorkSeq: 9, Action: "released", IdempotencyKey: "k"})
	log := chained(t, "a", r.events)
	s, err := audit.Explain(context.Background(), append(log, log[2]), eventID(1))
	if err != nil {
		t.Fatal(err)
	}
	if s.Key != "user.Get" || s.Result != "stop" || s.Reason != "attempts_exhausted" || s.Attempts != 4 || time.Duration(s.Waiting) != 12*time.Second || len(s.Steps) != 5 {
		t.Errorf("%+v", s)
	}
	fields := [][]audit.Field{}
	for _, step := range s.Steps {
		fields = append(fields, step.Fields)
	}
	want := [][]audit.Field{
		{{Path: "retry.backoff", Value: "1s"}},
		{{Path: "retry.timeout", Value: "1s"}, {Path: "retry.backoff_cap", Value: "2s"}},
		{{Path: "retry.max_pushback", Value: "1m0s"}},
		{{Path: "retry.max_attempts", Value: "4"}},
		nil,
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
	if s.Steps[4].Detail != "released, k" {
		t.Errorf("detail %q", s.Steps[4].Detail)
	}
	if _, err := audit.Explain(context.Background(), log, "nobody"); !errors.Is(err, audit.ErrNoWork) {
		t.Errorf("error %v", err)
	}
}

func TestA4AJobsOwnMaximumIsNotThePolicys(t *testing.T) {
	p := compiled(t, "user.Get", func(p *policy.Policy) { p.Retry.MaxAttempts = 5 })
	r := newRecording(t, 1)
	r.snapshot(p)
	r.add(audit.Event{
		Type: audit.RetryExhausted, WorkID: "job", WorkSeq: 102, Decision: "stop", Reason: policy.ReasonAttemptsExhausted,
		StateNumber: 2, StateLimit: 2, PolicyRevision: p.Meta.Revision,
	})
	r.add(audit.Event{Type: audit.JobTransition, WorkID: "job", WorkSeq: 199, From: "running", To: "dead", Reason: policy.ReasonOutcomeUnknown})
	s, err := audit.Explain(context.Background(), chained(t, "a", r.events), "job")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]audit.Field{{Path: "max_attempts", Value: "2"}}, s.Steps[0].Fields); diff != "" {
		t.Error(diff)
	}
	if got := s.Steps[1].Detail; got != "running → dead, outcome_unknown" {
		t.Errorf("the transition is described as %q", got)
	}
}

func TestA4StepsOfATransactionAreExplainedUnderTheirOwnKeys(t *testing.T) {
	r := newRecording(t, 1)
	step := string(policy.SurfaceStep)
	for i, e := range []audit.Event{
		{Type: audit.RetryAttempt, Key: "consumer/a.process", Decision: "retry", Reason: policy.ReasonRetry, StateNumber: 1},
		{Type: audit.RetryExhausted, Key: "consumer/a.process", Decision: "stop", Reason: policy.ReasonAttemptsExhausted, StateNumber: 2},
		{Type: audit.CallSucceeded, Key: "consumer/a.exception", Decision: "done", Reason: policy.ReasonSuccess, StateNumber: 1},
		{Type: audit.CallSucceeded, Key: "consumer/a.process", Decision: "done", Reason: policy.ReasonSuccess, StateNumber: 1}, // redelivered
	} {
		e.WorkID, e.WorkSeq, e.Surface = "t", i+1, step
		r.add(e)
	}
	s, err := audit.Explain(context.Background(), chained(t, "a", r.events), "t")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, step := range s.Steps {
		keys = append(keys, step.Key)
	}
	want := []string{"consumer/a.process", "consumer/a.process", "consumer/a.exception", "consumer/a.process"}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
	if s.Attempts != 4 {
		t.Errorf("%d attempts of all steps, want 4", s.Attempts)
	}
}

func TestA4ActionsOfGuardsAreInOrder(t *testing.T) {
	at := func(ms int) time.Time { return time.Date(2026, 1, 2, 3, 4, 5, ms*1e6, time.UTC) }
	events := []audit.Event{
		{Type: audit.Idempotency, WorkID: "job", Action: "released", Time: at(2)},
		{Type: audit.Idempotency, WorkID: "job", Action: "hit", Time: at(5)},
		{Type: audit.RetryAttempt, WorkID: "job", WorkSeq: 101, Decision: "retry", Reason: policy.ReasonRetry, StateNumber: 1, Time: at(1)},
		{Type: audit.JobTransition, WorkID: "job", WorkSeq: 199, From: "running", To: "scheduled", Time: at(3)},
		{Type: audit.CallSucceeded, WorkID: "job", WorkSeq: 202, Decision: "done", Reason: policy.ReasonSuccess, StateNumber: 2, Time: at(5)},
		{Type: audit.Idempotency, WorkID: "call", Action: "hit", Time: at(6)},
	}
	for i := range events {
		events[i].ID = eventID(i)
	}
	log := chained(t, "a", events)
	s, err := audit.Explain(context.Background(), log, "job")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, step := range s.Steps {
		got = append(got, string(step.Type)+step.Detail)
	}
	want := []string{"retry_attempt", "idempotencyreleased", "job_transitionrunning → scheduled", "call_succeeded", "idempotencyhit"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s, err = audit.Explain(context.Background(), log, "call"); err != nil || s.Result != "done" || s.Reason != string(policy.ReasonIdempotencyHit) {
		t.Errorf("%+v %v", s, err)
	}
}

func TestA4EveryReasonNamesItsField(t *testing.T) {
	p := compiled(t, "user.Get", func(p *policy.Policy) {
		p.Retry.RetryOn, p.Retry.AbortOn, p.Retry.ClassifierName = []policy.Class{"dns", "eof"}, []policy.Class{"tls"}, "http"
		p.Retry.OverallTimeout, p.Retry.Budget.Name = 5*time.Second, "shared"
		p.Hedge = policy.Hedge{Enabled: true, MaxExtraLoad: 0.25, Budget: policy.BudgetRef{Name: "extra"}}
		p.Circuit.Kind = policy.CircuitRate
	})
	cases := map[string]struct {
		e    audit.Event
		want audit.Field
	}{
		"retry_on":      {audit.Event{Type: audit.CallStopped, Reason: "non_retryable", MatchedRule: decision.RuleRetryOn}, audit.Field{Path: "retry.retry_on", Value: "dns, eof"}},
		"abort_on":      {audit.Event{Type: audit.CallStopped, Reason: "non_retryable", MatchedRule: decision.RuleAbortOn}, audit.Field{Path: "retry.abort_on", Value: "tls"}},
		"classifier":    {audit.Event{Type: audit.CallStopped, Reason: "non_retryable", MatchedRule: decision.RuleClassifier}, audit.Field{Path: "retry.classifier", Value: "http"}},
		"overall":       {audit.Event{Type: audit.CallStopped, Reason: "overall_timeout"}, audit.Field{Path: "retry.overall_timeout", Value: "5s"}},
		"pushback":      {audit.Event{Type: audit.CallStopped, Reason: "pushback_too_long"}, audit.Field{Path: "retry.max_pushback", Value: "1m0s"}},
		"budget":        {audit.Event{Type: audit.CallStopped, Reason: "budget_denied"}, audit.Field{Path: "retry.budget.name", Value: "shared"}},
		"hedge budget":  {audit.Event{Type: audit.Hedge, OutcomeReason: "budget_denied", Denied: true}, audit.Field{Path: "hedge.budget.name", Value: "extra"}},
		"extra load":    {audit.Event{Type: audit.Hedge, OutcomeReason: "max_extra_load", Denied: true}, audit.Field{Path: "hedge.max_extra_load", Value: "0.25"}},
		"circuit":       {audit.Event{Type: audit.CallStopped, Reason: "circuit_open"}, audit.Field{Path: "circuit.failure_rate", Value: "0.5"}},
		"exhausted":     {audit.Event{Type: audit.RetryExhausted, Reason: "attempts_exhausted"}, audit.Field{Path: "retry.max_attempts", Value: "3"}},
		"hedged groups": {audit.Event{Type: audit.CallSucceeded, Reason: "success", Group: []int{2, 1}}, audit.Field{Path: "hedge.max_hedges", Value: "1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRecording(t, 1)
			r.snapshot(p)
			c.e.WorkID, c.e.PolicyRevision = "w", p.Meta.Revision
			r.add(c.e)
			s, err := audit.Explain(context.Background(), chained(t, "a", r.events), "w")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]audit.Field{c.want}, s.Steps[0].Fields); diff != "" {
				t.Error(diff)
			}
		})
	}
}
