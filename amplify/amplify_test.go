package amplify_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/amplify"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// chain is a graph of n layers that each make so many attempts.
func chain(n, attempts int) string {
	var nodes []string
	edges := ""
	for i := range n {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
		edges += fmt.Sprintf("  - {from: n%d, to: n%d, attempts: %d}\n", i, i+1, attempts)
	}
	return fmt.Sprintf("version: 1\nnodes: [%s, n%d]\nedges:\n%s", strings.Join(nodes, ", "), n, edges)
}

func mapOf(t *testing.T, text string) *amplify.Map {
	t.Helper()
	g, err := policyfile.ParseGraph("graph.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return newMap(t, g, "version: 1\nbudgets: {b: {kind: retry_ratio, ratio: 0.2}}\ndefaults: {calls: {retry: {max_attempts: 4, budget: {name: b}}}}\n")
}

// newMap maps a graph under a policy document.
func newMap(t *testing.T, g *policyfile.Graph, document string) *amplify.Map {
	t.Helper()
	d, err := policyfile.Parse("policies.yaml", []byte(document), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := amplify.New(g, d.Set.Budgets(), func(name string) (amplify.Work, error) {
		p, err := d.Set.Policy(t.Context(), policy.ParseKey(name))
		return amplify.Work{Policy: p, Within: p.Retry.OverallTimeout}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestT3LayersMultiplyExactly(t *testing.T) {
	for _, c := range []struct {
		layers, attempts int
		want             float64
	}{{5, 3, 243}, {3, 4, 64}, {1, 1, 1}, {10, 10, 1e10}} {
		if got := mapOf(t, chain(c.layers, c.attempts)).Amplification.Worst; got != c.want {
			t.Errorf("%d layers of %d attempts: %g, want %g", c.layers, c.attempts, got, c.want)
		}
	}
}

func TestT3RequestsAddUpOverEdgesAndBudgetsBoundThem(t *testing.T) {
	m := mapOf(t, `version: 1
nodes: [web, api, cart, db]
edges:
  - {from: web, to: api, attempts: 2, calls: 3, failures: 0.5}
  - {from: web, to: cart, attempts: 1}
  - {from: api, to: db, key: db.Get}
  - {from: cart, to: db, key: db.Get, calls: 0.5}
`)
	db := m.Nodes[len(m.Nodes)-1]
	want := amplify.Requests{Plain: 3.5, Worst: 26, Budgeted: 7.2 + 0.6, Expected: 4.5 + 0.5, ExpectedBudgeted: 4.5 + 0.5}
	if db.Name != "db" || fmt.Sprintf("%.9g", db.Requests) != fmt.Sprintf("%.9g", want) {
		t.Errorf("%s: %+v, want %+v", db.Name, db.Requests, want)
	}
	if got := db.Amplification.Worst; got != 26/3.5 {
		t.Errorf("amplification %g", got)
	}
}

func TestT3ANodeIsDrawnToTheRightOfItsCallers(t *testing.T) {
	svg := string(mapOf(t, chain(2, 2)).SVG())
	for _, box := range []string{`<rect x="20" y="20"`, `<rect x="390" y="20"`, `<rect x="760" y="20"`} {
		if !strings.Contains(svg, box) {
			t.Errorf("no %s in\n%s", box, svg)
		}
	}
}

func TestOutOfRangeIsRefused(t *testing.T) {
	g, err := policyfile.ParseGraph("g", []byte(chain(150, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := amplify.New(g, nil, nil); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Error(err)
	}
}

func TestErrorsOfLoadsNameTheCall(t *testing.T) {
	g, err := policyfile.ParseGraph("g", []byte("version: 1\nnodes: [a, b]\nedges: [{from: a, to: b, key: x}]"))
	if err != nil {
		t.Fatal(err)
	}
	lost := errors.New("no policy")
	if _, err := amplify.New(g, nil, func(string) (amplify.Work, error) { return amplify.Work{}, lost }); !errors.Is(err, lost) || !strings.Contains(err.Error(), "from a to b") {
		t.Error(err)
	}
}

func TestLoadOfAPolicy(t *testing.T) {
	budgets := map[string]policy.Budget{
		"ratio": {Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 10}, "bucket": {Kind: policy.BudgetTokenBucket, Capacity: 5, RefillPerSecond: 1},
	}
	ratio := policy.BudgetRef{Name: "ratio"}
	for name, c := range map[string]struct {
		policy   policy.Policy
		attempts int
		budgeted float64
	}{
		"attempts":             {policy.Policy{Retry: policy.Retry{MaxAttempts: 4}}, 4, 4},
		"a retry ratio":        {policy.Policy{Retry: policy.Retry{MaxAttempts: 4, Budget: ratio}}, 4, 1.2},
		"a cost":               {policy.Policy{Retry: policy.Retry{MaxAttempts: 4, Budget: policy.BudgetRef{Name: "ratio", Cost: 2}}}, 4, 1.1},
		"a bucket":             {policy.Policy{Retry: policy.Retry{MaxAttempts: 4, Budget: policy.BudgetRef{Name: "bucket"}}}, 4, 4},
		"hedges":               {policy.Policy{Retry: policy.Retry{MaxAttempts: 3}, Hedge: policy.Hedge{Enabled: true, MaxHedges: 2}}, 9, 9},
		"hedges of one budget": {policy.Policy{Retry: policy.Retry{MaxAttempts: 3, Budget: ratio}, Hedge: policy.Hedge{Enabled: true, MaxHedges: 2}}, 9, 1.2},
		"one budget, named":    {policy.Policy{Retry: policy.Retry{MaxAttempts: 3, Budget: ratio}, Hedge: policy.Hedge{Enabled: true, MaxHedges: 2, Budget: ratio}}, 9, 1.2},
		"two costs": {policy.Policy{
			Retry: policy.Retry{MaxAttempts: 3, Budget: policy.BudgetRef{Name: "ratio", Cost: 2}}, Hedge: policy.Hedge{Enabled: true, MaxHedges: 2, Budget: ratio},
		}, 9, 1.2},
		"hedges of their budget": {policy.Policy{Retry: policy.Retry{MaxAttempts: 3}, Hedge: policy.Hedge{Enabled: true, MaxHedges: 2, Budget: ratio}}, 9, 3.2},
		"max_extra_load":         {policy.Policy{Retry: policy.Retry{MaxAttempts: 3}, Hedge: policy.Hedge{Enabled: true, MaxExtraLoad: 0.1}}, 6, 3.1},
		"hedges that come late":  {policy.Policy{Retry: policy.Retry{MaxAttempts: 3, TimeoutPerAttempt: 1e8}, Hedge: policy.Hedge{Enabled: true, HedgeDelay: 2e8}}, 3, 3},
	} {
		p, err := c.policy.Normalize(policy.CallLimits())
		if err != nil {
			t.Fatal(err)
		}
		if got := amplify.Of(&p, p.Retry.OverallTimeout, budgets); got.Attempts != c.attempts || fmt.Sprintf("%.9g", got.Budgeted) != fmt.Sprintf("%.9g", c.budgeted) {
			t.Errorf("%s: %+v, want %d and %g", name, got, c.attempts, c.budgeted)
		}
	}
}

func TestO1SVGEscapesTheGraphAndIsWellFormed(t *testing.T) {
	m := mapOf(t, `version: 1
nodes: ["<script>alert(1)</script>", "b & \"c\" of a name that is longer than its box"]
edges: [{from: "<script>alert(1)</script>", to: "b & \"c\" of a name that is longer than its box", key: "</text><a>"}]
`)
	svg := string(m.SVG())
	if strings.Contains(svg, "<script") || strings.Contains(svg, "<a>") {
		t.Errorf("text is not escaped:\n%s", svg)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if !strings.Contains(svg, "prefers-color-scheme: dark") {
		t.Error("no colors for dark")
	}
}

// TestT3ARecordMultipliesToItsOwnCounts: 10 pages took 15 attempts, which made 30 calls of db.Get with 36 attempts; 10 more of these had
// no parent.
func TestT3ARecordMultipliesToItsOwnCounts(t *testing.T) {
	m, err := amplify.FromRecord([]amplify.Recorded{
		{"", "db.Get", 10, 10}, {"", "web.Page", 10, 15}, {"web.Page", "db.Get", 30, 36}, {"gone.Call", "x.Y", 1, 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	db := m.Nodes[len(m.Nodes)-1]
	if db.Name != "db.Get" || len(m.Edges) != 3 || len(m.Nodes) != 3 {
		t.Fatalf("%+v", m)
	}
	// Per piece of work: 46 requests in 20. Without retries, half of them are pages that make 2 calls each: 0.5 + 0.5 · 2.
	if got := fmt.Sprintf("%.9g of %.9g, %.9g times", db.Requests.Worst, db.Requests.Plain, db.Amplification.Expected); got != "2.3 of 1.5, 1.53333333 times" {
		t.Error(got)
	}
}

func TestT3ARecordedCycleIsRefused(t *testing.T) {
	_, err := amplify.FromRecord([]amplify.Recorded{{"", "a.A", 1, 1}, {"a.A", "b.B", 1, 1}, {"b.B", "a.A", 1, 1}})
	if err == nil || !strings.Contains(err.Error(), "a.A ran inside an attempt of its own key") {
		t.Error(err)
	}
}
