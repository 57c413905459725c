package amplify_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/simulate"
)

func graph(t *testing.T, text string) *policyfile.Graph {
	t.Helper()
	g, err := policyfile.ParseGraph("graph.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The calls of a node earn tokens for each other: 100 calls that succeed pay for every retry of one that fails.
func TestT3ASharedBudgetBoundsNoEdgeByItself(t *testing.T) {
	const document = `version: 1
budgets: {pool: {kind: retry_ratio, ratio: 0.2, burst: 20}}
policies:
  k.A: {retry: {max_attempts: 10, backoff: 1ms, jitter: none, backoff_cap: 1ms, budget: {name: pool}}}
  k.B: {retry: {max_attempts: 2, backoff: 1ms, budget: {name: pool}}}
`
	m := newMap(t, graph(t, "version: 1\nnodes: [web, a, b]\nedges: [{from: web, to: a, key: k.A}, {from: web, to: b, key: k.B, calls: 100}]\n"), document)
	d, err := policyfile.Parse("policies.yaml", []byte(document), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: d.Set, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	attempts, rounds := 0, 300
	for range rounds {
		for range 100 {
			_ = e.Do(t.Context(), policy.ParseKey("k.B"), func(context.Context) error { return nil })
		}
		_ = e.Do(t.Context(), policy.ParseKey("k.A"), func(context.Context) error { attempts++; return errors.New("down") })
	}
	made := float64(attempts) / float64(rounds)
	if got := m.Edges[0].Attempts.Budgeted; made < 9.5 || got < made {
		t.Errorf("%g attempts per call of k.A, and the bound is %g", made, got)
	}
	if got := m.Edges[1].Attempts.Budgeted; fmt.Sprintf("%.9g", got) != "1.202" { // 0.2 · 101 / 100
		t.Errorf("the bound of k.B is %g", got)
	}
}

// A call whose hedges are off fills no budget of hedges.
func TestT3CallsWithoutHedgesEarnNothingForTheirHedgesBudget(t *testing.T) {
	const document = `version: 1
budgets: {pool: {kind: retry_ratio, ratio: 0.1, burst: 5}}
policies:
  k.A: {retry: {max_attempts: 3, backoff: 1ms, budget: {name: pool}}}
  k.B: {retry: {max_attempts: 1}, hedge: {enabled: false, budget: {name: pool}}}
`
	m := newMap(t, graph(t, "version: 1\nnodes: [web, a, b]\nedges: [{from: web, to: a, key: k.A}, {from: web, to: b, key: k.B, calls: 9}]\n"), document)
	d, err := policyfile.Parse("policies.yaml", []byte(document), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := retry.NewExecutor(retry.ExecutorOptions{Provider: d.Set, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	attempts, rounds := 0, 300
	for range rounds {
		for range 9 {
			_ = e.Do(t.Context(), policy.ParseKey("k.B"), func(context.Context) error { return nil })
		}
		_ = e.Do(t.Context(), policy.ParseKey("k.A"), func(context.Context) error { attempts++; return errors.New("down") })
	}
	if attempts > 300+30+5 {
		t.Fatalf("%d attempts: the executor lets k.B earn", attempts)
	}
	if got := m.Edges[0].Attempts.Budgeted; got != 1.1 {
		t.Errorf("the bound of k.A is %g, want 1.1", got)
	}
}

// A key has one max_extra_load: 9 calls that are fast save up the hedges of one that is slow.
func TestT3TheExtraLoadOfAKeyBoundsNoEdgeByItself(t *testing.T) {
	const document = `version: 1
policies: {k.A: {retry: {max_attempts: 1}, hedge: {enabled: true, delay: 10ms, max_extra_load: 0.1}}}
`
	m := newMap(t, graph(t, "version: 1\nnodes: [web, fast, slow]\nedges: [{from: web, to: fast, key: k.A, calls: 9}, {from: web, to: slow, key: k.A}]\n"), document)
	d, err := policyfile.Parse("policies.yaml", []byte(document), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		e := retry.NewExecutor(retry.ExecutorOptions{Provider: d.Set})
		var attempts atomic.Int64
		rounds := 100
		for range rounds {
			for range 9 {
				_ = e.Do(t.Context(), policy.ParseKey("k.A"), func(context.Context) error { return nil })
			}
			_ = e.Do(t.Context(), policy.ParseKey("k.A"), func(context.Context) error {
				attempts.Add(1)
				time.Sleep(time.Second)
				return nil
			})
		}
		made := float64(attempts.Load()) / float64(rounds)
		if got := m.Edges[1].Attempts.Budgeted; made < 1.9 || got < made {
			t.Errorf("%g attempts per slow call, and the bound is %g", made, got)
		}
		if err := e.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if got := m.Edges[0].Attempts.Budgeted; fmt.Sprintf("%.9g", got) != "1.11111111" { // 0.1 · 10 / 9
		t.Errorf("the bound of the fast calls is %g", got)
	}
}

func TestT3ABudgetOfAllProcessesBoundsNoEdgeBesideOthers(t *testing.T) {
	const document = `version: 1
budgets: {pool: {kind: retry_ratio, ratio: 0.2, scope: shared}}
defaults: {calls: {retry: {max_attempts: 4, budget: {name: pool}}}}
`
	one := newMap(t, graph(t, "version: 1\nnodes: [a, b]\nedges: [{from: a, to: b, key: a.B}]\n"), document)
	two := newMap(t, graph(t, "version: 1\nnodes: [a, b, c]\nedges: [{from: a, to: b, key: a.B}, {from: b, to: c, key: b.C}]\n"), document)
	if one.Amplification.Budgeted != 1.2 || two.Amplification.Budgeted != 16 {
		t.Errorf("%g and %g, want 1.2 and 16", one.Amplification.Budgeted, two.Amplification.Budgeted)
	}
}

// The expected numbers are those of the production executor in simulated services, within 1 %.
func TestT3ExpectedNumbersAgreeWithTheSimulator(t *testing.T) {
	const services = `
services: {api: {calls: {db: {policy: db.Get}}}, db: {errors: 0.5}}
clients: {web: {service: api, policy: api.Get, rate: 500}}
`
	const edges = "version: 1\nnodes: [web, api, db]\nedges: [{from: web, to: api, key: api.Get, failures: %g}, {from: api, to: db, key: db.Get, failures: 0.5}]\n"
	for name, c := range map[string]struct {
		policies string
		failures float64 // of the calls of api
		of       func(amplify.Requests) float64
	}{
		"without budgets": {`
policies: {api.Get: {retry: {max_attempts: 3, backoff: 1ms}}, db.Get: {retry: {max_attempts: 3, backoff: 1ms}}}`, 0.125, func(r amplify.Requests) float64 { return r.Expected }},
		"after budgets": {`
budgets: {few: {kind: retry_ratio, ratio: 0.1, burst: 5}}
policies: {api.Get: {retry: {max_attempts: 1}}, db.Get: {retry: {max_attempts: 3, backoff: 1ms, budget: {name: few}}}}`, 0, func(r amplify.Requests) float64 { return r.ExpectedBudgeted }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMap(t, graph(t, fmt.Sprintf(edges, c.failures)), "version: 1"+c.policies)
			s, err := simulate.Parse("s.yaml", []byte("version: 1\nduration: 3m"+c.policies+services))
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Run(t.Context(), simulate.Options{})
			if err != nil {
				t.Fatal(err)
			}
			simulated := float64(r.Services[1].Requests) / float64(r.Clients[1].Calls)
			mapped := c.of(m.Nodes[len(m.Nodes)-1].Requests)
			if r.Clients[1].Name != "web" || simulated < 0.99*mapped || simulated > 1.01*mapped {
				t.Errorf("%g requests at db for each call, %g on the map", simulated, mapped)
			}
		})
	}
}

func TestT3HedgesAreLeftOutOfTheExpectedNumber(t *testing.T) {
	m := newMap(t, graph(t, "version: 1\nnodes: [a, b]\nedges: [{from: a, to: b, key: a.B, failures: 0.5}]\n"),
		"version: 1\npolicies: {a.B: {retry: {max_attempts: 3}, hedge: {enabled: true, max_hedges: 1}}}\n")
	if got := m.Edges[0].Attempts; got.Expected != 1.75 || got.Worst != 6 {
		t.Errorf("%+v, want 1.75 of at most 6", got)
	}
}
