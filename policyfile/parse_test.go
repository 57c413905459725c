package policyfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

func TestP6EmptyDocuments(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# only a comment\n", "---\n", "\ufeff"} {
		faults := refuse(t, text)
		if len(faults) != 1 || faults[0].String() != "doc.yaml:1:1: the document is empty; start with version: 1" {
			t.Errorf("%q: %v", text, faults)
		}
	}
}

func TestP6SyntaxErrorsHaveAPlace(t *testing.T) {
	for text, want := range map[string][2]int{
		"version: 1\npolicies: {a: {\n": {3, 1},
		"version: 1\n\tpolicies: {}\n":  {2, 1},
		"version: 1\na: b: c\n":         {2, 5},
		"version: 1\nb: *nothing\n":     {2, 4},
	} {
		faults := refuse(t, text)
		if f := faults[0]; len(faults) != 1 || f.Line != want[0] || f.Column != want[1] || !strings.HasPrefix(f.Problem, "not valid YAML: ") {
			t.Errorf("%q: %v", text, faults)
		}
	}
}

func TestP6TheBoundsOfADurationAreDurations(t *testing.T) {
	for per, want := range map[string]string{
		"2h": "2h must be at most 1h; write 1h or less, or leave the field out", "7200": "7200 must be at most 1h; write 1h or less, or leave the field out",
		"10us": "10us must be at least 1ms; write 1ms or more, or leave the field out",
	} {
		faults := refuse(t, "version: 1\nqueues: {q: {limits: [{name: a, rate: {count: 1, per: "+per+"}}]}}\n")
		if got := faults[0].String(); len(faults) != 1 || !strings.HasSuffix(got, "limits[0].rate.per: "+want) {
			t.Errorf("%q", got)
		}
	}
}

// TestP6ALimitWhoseBoundIsAtFaultHasOneFault: it lacks no concurrency besides.
func TestP6ALimitWhoseBoundIsAtFaultHasOneFault(t *testing.T) {
	for fields, want := range map[string]string{
		"rate: 5":                        "rate",
		"rate: {count: 0}":               "rate.count",
		"rate: {cuont: 5}":               "rate.cuont",
		"concurency: 5":                  "concurency",
		"concurrency: x":                 "concurrency",
		"key: [7]":                       "concurrency, key[0]",
		"order: strikt":                  "concurrency, order",
		"concurrency: 1, rate: {per: 1}": "rate.count",
	} {
		var got []string
		for _, f := range refuse(t, "version: 1\nqueues: {mail.in: {limits: [{name: a, "+fields+"}]}}\n") {
			got = append(got, strings.TrimPrefix(f.Path, "queues.mail.in.limits[0]."))
		}
		slices.Sort(got)
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %s", fields, got, want)
		}
	}
}

func TestP6FaultsAreSortedByPlace(t *testing.T) {
	for name, text := range corpus(t, "invalid") {
		_, err := Parse(name, text, Options{})
		var refused *Error
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(refused.Faults, func(a, b Fault) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		}) {
			t.Errorf("%s: %v", name, refused.Faults)
		}
	}
}

func TestP6ErrorsListFaultsAndKeepWarnings(t *testing.T) {
	_, err := Parse("doc.yaml", []byte("version: 1\npolicies: {a: {retry: {max_attempts: 99, timeout: -1}}}\n"), Options{})
	var refused *Error
	if !errors.As(err, &refused) || len(refused.Faults) != 2 || !refused.Faults[0].Warning {
		t.Fatalf("%v", err)
	}
	want := "doc.yaml:2:51: policies.a.retry.timeout: -1 must be greater than 0; write null for none, or a value above 0"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestP6DeprecatedFieldsWarnOnce(t *testing.T) {
	old := map[string]string{"Retry.retries": "write max_attempts", "Hedge.trigger": "write nothing"}
	text := "version: 1\npolicies:\n  a: {retry: {retries: 3}}\n  b: {retry: {retries: x}, hedge: {enabled: true, trigger: p95}}\n"
	d, err := parse("doc.yaml", []byte(text), Options{Source: policy.SourceFile}, old)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range d.Warnings {
		got = append(got, w.String())
	}
	want := []string{
		"doc.yaml:3:15: policies.a.retry.retries: deprecated; write max_attempts",
		"doc.yaml:4:15: policies.b.retry.retries: deprecated; write max_attempts",
		"doc.yaml:4:51: policies.b.hedge.trigger: deprecated; write nothing",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p := ask(t, d, policy.ParseKey("b")); p.Hedge.TriggerName != "p95" || p.Retry.MaxAttempts != 3 {
		t.Errorf("a field that Go still has is read, one that is gone is not: %+v", p)
	}
	if _, err := Parse("doc.yaml", []byte(text), Options{}); err == nil {
		t.Error("not deprecated outside this test")
	}
}

func TestCaret(t *testing.T) {
	long := "\tkey: " + strings.Repeat("ä", 80) + "!" + strings.Repeat("z", 80)
	for _, c := range []struct {
		fault Fault
		want  string
	}{
		{Fault{Column: 4, source: "abcdef"}, "abcdef\n   ^"},
		{Fault{Column: 3, source: "\tb\x01"}, " b \n  ^"},
		{Fault{Column: 9, source: "abc"}, "abc\n   ^"},
		{Fault{Column: 1}, "\n^"},
		{Fault{Column: 87, source: long}, "…" + strings.Repeat("ä", 60) + "!" + strings.Repeat("z", 39) + "…\n" + strings.Repeat(" ", 61) + "^"},
		{Fault{Column: 2, source: long}, " key: " + strings.Repeat("ä", 80) + "!" + strings.Repeat("z", 13) + "…\n ^"},
		{Fault{Column: 167, source: long}, "…" + strings.Repeat("ä", 19) + "!" + strings.Repeat("z", 80) + "\n" + strings.Repeat(" ", 100) + "^"},
	} {
		if diff := cmp.Diff(c.want, c.fault.Caret()); diff != "" {
			t.Errorf("%q column %d: %s", c.fault.source, c.fault.Column, diff)
		}
	}
}

func TestJSONSurrogatesAreOneCharacter(t *testing.T) {
	d, err := Parse("j.json", []byte(`{"version":1,"policies":{"a \ud83d\ude00 b":{"id":"\\ud83d \uD834\uDD1E"}}}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p := ask(t, d, policy.ParseKey("a 😀 b")); p.ID != `\ud83d 𝄞` || !d.Set.Named(p.Key) {
		t.Errorf("%+v", p)
	}
}

func TestLineAndOrigin(t *testing.T) {
	d := accept(t, `defaults:
  calls: {retry: {backoff: 20ms, timeout: 1s}}
  jobs:
    timeout: 9s
policies:
  a.B:
    retry:
      max_attempts: 2
      timeout: null
  kv: {category: KV_GET}
queues:
  q: {budget: {name: b}}
budgets: {b: {kind: unlimited}}
jobs: {j: {circuit: null}}
`)
	for path, want := range map[string]int{"policies.a.B": 7, "policies.a.B.retry.max_attempts": 9, "budgets.b.kind": 14, "policies.c": 0} {
		if got := d.Line(path); got != want {
			t.Errorf("line of %s: %d, want %d", path, got, want)
		}
	}
	for _, c := range []struct {
		key         policy.Key
		field, path string
		line        int
	}{
		{policy.ParseKey("a.B"), "retry.max_attempts", "policies.a.B.retry.max_attempts", 9},
		{policy.ParseKey("a.B"), "retry.timeout", "policies.a.B.retry.timeout", 10},
		{policy.ParseKey("a.B"), "retry.backoff", "defaults.calls.retry.backoff", 3},
		{policy.ParseKey("a.B"), "retry.backoff_cap", "", 0},
		{policy.ParseKey("kv"), "retry.max_attempts", "", 0},
		{policy.ParseKey("new"), "retry.timeout", "defaults.calls.retry.timeout", 3},
		{policy.JobKey("q", "j"), "retry.budget.name", "queues.q.budget.name", 13},
		{policy.JobKey("q", "j"), "retry.timeout", "defaults.jobs.timeout", 5},
		{policy.JobKey("q", "j"), "circuit.kind", "jobs.j.circuit", 15},
		{policy.JobKey("q", "z"), "retry.budget.name", "queues.q.budget.name", 13},
		{policy.JobKey("x", "j"), "circuit.kind", "jobs.j.circuit", 15},
		{policy.JobKey("x", "y"), "retry.timeout", "defaults.jobs.timeout", 5},
	} {
		if path, line := d.Origin(c.key, c.field); path != c.path || line != c.line {
			t.Errorf("origin of %s %s: %q line %d, want %q line %d", c.key, c.field, path, line, c.path, c.line)
		}
	}
}

// TestP6FieldsWhosePathsReadAlikeHaveTheirOwnLines: jobs.mail.retry.timeout may belong to either type.
func TestP6FieldsWhosePathsReadAlikeHaveTheirOwnLines(t *testing.T) {
	d, err := Parse("doc.yaml", []byte("version: 1\njobs:\n  mail:\n    retry:\n      timeout: 1us\n  mail.retry:\n    timeout: 2us\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	const path = "jobs.mail.retry.timeout"
	for i, line := range []int{5, 7} {
		if w := d.Warnings[i]; w.Line != line || w.Path != path {
			t.Errorf("%+v, want line %d", w, line)
		}
		key := policy.JobKey("q", []string{"mail", "mail.retry"}[i])
		if at, n := d.Origin(key, "retry.timeout"); at != path || n != line {
			t.Errorf("origin in line %d of %s, want %d", n, at, line)
		}
		if f := d.Locate(key, "retry.timeout"); f.Path != path || f.Line != line {
			t.Errorf("located in line %d of %s, want %d", f.Line, f.Path, line)
		}
	}
	faults := refuse(t, "version: 1\njobs:\n  mail: {retry: {timeout: -1}}\n  mail.retry: {timeout: 5s, retry: {timeout: 5s}}\nqueues:\n  mail: {retry: {budget: {name: none}}}\n  mail.retry: {budget: {cost: 2}}\n")
	if len(faults) != 4 || faults[1].Line != 4 || faults[3].Line != 7 {
		t.Errorf("%v", faults)
	}
	faults = refuse(t, "version: 1\njobs:\n  mail:\n    retry.retry_on: [timeout]\n    retry: {retry_on: [timeout], abort_on: [timeout]}\n")
	if len(faults) != 2 || faults[0].Line != 4 || faults[1].Line != 5 {
		t.Errorf("%v", faults)
	}
}

func TestP6AnItemOfAListHasItsOwnLine(t *testing.T) {
	faults := refuse(t, "version: 1\nqueues:\n  mail:\n    limits:\n    - name: a\n      concurrency: 1\n      key:\n      - queue\n      - color\n")
	if len(faults) != 1 || faults[0].Path != "queues.mail.limits[0].key[1]" || faults[0].Line != 9 || faults[0].Column != 9 {
		t.Errorf("%+v", faults)
	}
	faults = refuse(t, "version: 1\nqueues:\n  mail:\n    limits:\n    - name: a\n      concurrency: 1\n      key:\n      - 7\n      - color\n")
	if len(faults) != 2 || faults[1].Path != "queues.mail.limits[0].key[1]" || faults[1].Line != 9 {
		t.Errorf("behind an invalid item: %+v", faults)
	}
	faults = refuse(t, "version: 1\nprove:\n  suppress:\n  - [a, b]\n  - {code: x, path: y}\nqueues:\n  m:\n    limits:\n    - 7\n    - {name: a, concurrency: 1, key: [color]}\n")
	var got []string
	for _, f := range faults {
		got = append(got, fmt.Sprint(f.Line, " ", f.Path))
	}
	want := []string{"4 prove.suppress[0]", "5 prove.suppress[1].reason", "9 queues.m.limits[0]", "10 queues.m.limits[1].key[0]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("beside an item that is no object: %s", diff)
	}
	_, err := ParseGraph("graph.yaml", []byte("version: 1\nnodes:\n- a\n- b\n- a\nedges:\n- {from: a, to: b, attempts: 1}\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "graph.yaml:5:3: nodes[2]: ") {
		t.Error(err)
	}
}

func TestP6AQuotedMergeKeyIsAnUnknownField(t *testing.T) {
	for _, text := range []string{
		`{"version": 1, "policies": {"users": {"retry": {"<<": {"max_attempts": 7}}}}}`,
		"version: 1\n\"<<\": {defaults: {}}\n",
	} {
		if faults := refuse(t, text); len(faults) != 1 || !strings.Contains(faults[0].Problem, `unknown field "<<"`) {
			t.Error(faults)
		}
	}
	refuse(t, `{"version": 1, "policies": {"<<": {"retry": {"max_attempts": -7}}}}`)
}
