package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// last returns the newest report.
func (s *server) last(t *testing.T) protocol.Report {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reports) == 0 {
		t.Fatal("no report")
	}
	return s.reports[len(s.reports)-1]
}

const mechanismDocument = `version: 1
budgets:
  shared: {kind: retry_ratio, ratio: 0.1, burst: 1}
policies:
  users.Get: {retry: {max_attempts: 1}, circuit: {kind: consecutive, failures: 2, cooldown: 30s}}
  mails.Send: {retry: {max_attempts: 3, backoff: 1ms, budget: {name: shared}}}
  files.Put: {retry: {max_attempts: 1}, limit: {rate: {count: 1, per: 1h}}}
`

func TestU2ClientsReportWhatRefusesAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		e := protocol.Envelope{Document: "shop", Revision: 1, Body: mechanismDocument, Published: time.Unix(1, 0)}
		e.Sign(signingKey('a'))
		s.send(e)
		p := follow(t, s.options())
		time.Sleep(time.Second)
		executor := retry.NewExecutor(retry.ExecutorOptions{Provider: p, Observer: p.Observer()})
		fails := func(key string, times int) {
			for range times {
				_ = executor.Do(t.Context(), policy.ParseKey(key), func(context.Context) error { return errors.New("no") })
			}
		}
		time.Sleep(10 * time.Second)
		if m := s.last(t).Mechanisms; len(m) != 0 {
			t.Errorf("reported before anything was refused: %+v", m)
		}
		fails("users.Get", 5)  // two fail and open the breaker, three are refused
		fails("mails.Send", 4) // the burst allows one retry
		fails("files.Put", 3)  // one runs
		time.Sleep(10 * time.Second)
		want := []protocol.Mechanism{
			{Kind: "breaker", Name: "users.Get", State: "open", Openings: 1, Refusals: 3},
			{Kind: "budget", Name: "shared", State: "exhausted", Refusals: 4},
			{Kind: "limit", Name: "files.Put", State: "exhausted", Refusals: 2},
		}
		if diff := cmp.Diff(want, s.last(t).Mechanisms, cmpopts.IgnoreFields(protocol.Mechanism{}, "Seconds")); diff != "" {
			t.Error(diff)
		}
		for _, m := range s.last(t).Mechanisms {
			if m.Seconds < 1 || m.Seconds > 10 {
				t.Errorf("%s %s for %v s", m.Name, m.State, m.Seconds)
			}
		}
		time.Sleep(90 * time.Second) // nothing more is refused
		_ = executor.Do(t.Context(), policy.ParseKey("users.Get"), func(context.Context) error { return nil })
		time.Sleep(10 * time.Second)
		want[0].State, want[1].State, want[2].State = "closed", "available", "available"
		slices.SortFunc(want, func(a, b protocol.Mechanism) int { return int(b.Refusals - a.Refusals) })
		if diff := cmp.Diff(want, s.last(t).Mechanisms, cmpopts.IgnoreFields(protocol.Mechanism{}, "Seconds")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestS9TheWorstMechanismsAreReportedFirstAndNoMoreThanAllowed(t *testing.T) {
	following(t, func(t *testing.T, s *server, p *controlplane.Server) {
		time.Sleep(time.Second)
		for i := range 700 { // more than a report and than the client itself keep apart
			key := policy.Key{Name: fmt.Sprintf("key-%03d", i)}
			to := "closed"
			if i == 400 {
				to = "open"
			}
			p.Observer().Observe(t.Context(), &observe.Event{Type: observe.CircuitChanged, Work: observe.Work{Key: key}, Circuit: &observe.CircuitChange{From: "half_open", To: to}})
		}
		time.Sleep(10 * time.Second)
		got := s.last(t).Mechanisms
		if len(got) != protocol.MaxMechanisms || got[0].Name != "key-400" || got[0].State != "open" {
			t.Errorf("%d mechanisms, the first %+v", len(got), got[0])
		}
	})
}

func TestU2ClientsReportTheTotalsOfPipelines(t *testing.T) {
	following(t, func(t *testing.T, s *server, p *controlplane.Server) {
		time.Sleep(time.Second)
		var list []*pipeline.Transaction
		for i := range 20 {
			list = append(list, pipeline.NewTransaction(fmt.Sprint(i), []byte(`"x"`)))
		}
		failed := map[string]bool{}
		task := pipeline.Handle(func(ctx context.Context, _ string) error {
			time.Sleep(time.Second)
			if id := pipeline.TransactionOf(ctx).ID(); id == "7" && !failed[id] {
				failed[id] = true
				return errors.New("once")
			}
			return nil
		})
		c := pipeline.NewConsumer(pipeline.NewMemorySource(list...), task, policy.Consumer{
			Loop: policy.ConsumerLoop{Concurrency: policy.Concurrency{Value: 1}}, Steps: policy.ConsumerSteps{Process: policy.Step{Retry: policy.Retry{MaxAttempts: 3}}},
		}, pipeline.WithName("orders"), pipeline.WithObserver(p.Observer()))
		done := make(chan error, 1)
		go func() { _, err := c.Run(t.Context()); done <- err }()
		time.Sleep(15 * time.Second)
		got := s.last(t).Pipelines
		if len(got) != 1 || got[0].Kind != "consumer" || got[0].Name != "orders" || got[0].Source != "pipeline" || got[0].InFlight != 1 || got[0].Rate < 0.5 || got[0].Rate > 1.5 || got[0].Ended || !got[0].LagKnown || got[0].Lag < 1 || got[0].Lag >= 20 {
			t.Errorf("while it runs: %+v", got)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		want := protocol.Pipeline{Kind: "consumer", Name: "orders", Source: "pipeline", Ended: true, Fetched: 20, Success: 20, Retries: 1}
		if diff := cmp.Diff([]protocol.Pipeline{want}, s.last(t).Pipelines, cmpopts.IgnoreFields(protocol.Pipeline{}, "Seconds")); diff != "" {
			t.Error(diff)
		}
	})
}
