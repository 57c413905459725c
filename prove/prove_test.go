package prove_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/prove"
)

func findings(t testing.TB, text, graph string) []prove.Finding {
	t.Helper()
	d, err := policyfile.Parse("policies.yaml", []byte(text), policyfile.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var g *policyfile.Graph
	if graph != "" {
		if g, err = policyfile.ParseGraph("graph.yaml", []byte(graph)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := prove.Document(d, g)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func codes(list []prove.Finding) []string {
	var codes []string
	for _, f := range list {
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// TestT1EveryRuleFindsItsExampleAndAcceptsTheMendedOne also replays each counterexample on the production core.
func TestT1EveryRuleFindsItsExampleAndAcceptsTheMendedOne(t *testing.T) {
	for _, r := range prove.Rules() {
		t.Run(r.Code, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", "rules", r.Code+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			examples := strings.Split(string(text)+"---\n", "---\n") // an absent graph is empty
			violating, mended, graph := examples[0], examples[1], examples[2]
			list := findings(t, violating, graph)
			if r.Severity == prove.Note {
				if !slices.Contains(codes(list), r.Code) || slices.ContainsFunc(list, func(f prove.Finding) bool { return f.Code == r.Code && f.Broken() }) {
					t.Errorf("findings %+v", list)
				}
				note := func(list []prove.Finding) (messages []string) {
					for _, f := range list {
						if f.Code == r.Code {
							messages = append(messages, f.Message)
						}
					}
					return messages
				}
				better := findings(t, mended, graph)
				if found := prove.Violations(better); len(found) > 0 || slices.Equal(note(better), note(list)) {
					t.Errorf("the mended document: %q, violations %+v", note(better), found)
				}
				return
			}
			if found := codes(prove.Violations(list)); !slices.Contains(found, r.Code) {
				t.Errorf("violations %v of\n%s", found, violating)
			}
			replay(t, list)
			if found := prove.Violations(findings(t, mended, graph)); len(found) > 0 {
				t.Errorf("the mended document has violations %+v", found)
			}
		})
	}
}

// TestT1ATimeoutOfTheWholeWorkEndsItsAttempts looks at the boundary, where an attempt and its work time out together: there is then
// no time left for a retry.
func TestT1ATimeoutOfTheWholeWorkEndsItsAttempts(t *testing.T) {
	for retry, want := range map[string]bool{
		"{max_attempts: 3, timeout: 1s, overall_timeout: 1s}":     true,
		"{max_attempts: 3, timeout: 999ms, overall_timeout: 1s}":  false,
		"{max_attempts: 1, timeout: 1s, overall_timeout: 1s}":     false,
		"{max_attempts: 1, timeout: 1001ms, overall_timeout: 1s}": true,
	} {
		found := codes(prove.Violations(findings(t, "version: 1\npolicies:\n  a.B: {retry: "+retry+"}\n", "")))
		if got := slices.Contains(found, "timeout-unreachable"); got != want {
			t.Errorf("%s: violations %v", retry, found)
		}
	}
}

// TestT1OutagesAreJudgedByTheLongestDelays looks at the boundaries: the end of the work, and delays that it cuts off.
func TestT1OutagesAreJudgedByTheLongestDelays(t *testing.T) {
	const policies = "version: 1\npolicies:\n  a.B: {retry: {%s}}\nprove: {outages: [{path: %s, lasts: %s}]}\n"
	for _, c := range []struct {
		retry, path, lasts string
		violated           bool
	}{
		{"max_attempts: 3, backoff: 1s, backoff_cap: 2s, jitter: none", "policies.a.B", "3s", false},
		{"max_attempts: 3, backoff: 1s, backoff_cap: 2s, jitter: none", "policies.a.B", "3001ms", true},
		{"max_attempts: 3, backoff: 1s, backoff_cap: 2s, jitter: full", "policies.a.B", "3s", false}, // a jitter may use the retries up sooner
		{"max_attempts: 3, backoff: 8s, backoff_multiplier: 1, jitter: none, overall_timeout: 10s", "policies.a.B", "9s", true},
		{"max_attempts: 3, backoff: 8s, backoff_multiplier: 1, jitter: full, overall_timeout: 10s", "policies.a.B", "9s", false},
		{"max_attempts: 3, backoff: 8s, backoff_multiplier: 1, jitter: full, overall_timeout: 10s", "policies.a.B", "10s", true},
		{"max_attempts: 3, backoff: 1s, jitter: none", "policies.a.C", "1s", true}, // there is no such policy
	} {
		list := findings(t, fmt.Sprintf(policies, c.retry, c.path, c.lasts), "")
		found := prove.Violations(list)
		if got := slices.Contains(codes(found), "outage-outlasts-retries"); got != c.violated {
			t.Errorf("%s, %s: violations %+v", c.retry, c.lasts, found)
		}
		replay(t, list)
	}
	// Each entry has a finding of its own, also where its number of attempts is inherited. Jobs with limits are not judged.
	got := map[string]string{}
	for _, f := range findings(t, `version: 1
defaults:
  jobs: {retry: {max_attempts: 5, backoff: 1s, backoff_cap: 1m}}
queues:
  slow: {limits: [{name: one, concurrency: 1}]}
jobs:
  "a:x": {timeout: 3s}
  "b:y": {timeout: 4s}
  "c:z": {limits: [{name: two, concurrency: 2}]}
prove:
  outages:
    - {path: "jobs.a:x", lasts: 1m}
    - {path: "jobs.b:y", lasts: 10h}
    - {path: "jobs.c:z", lasts: 10h}
`, "") {
		if f.Code == "outage-outlasts-retries" {
			got[f.Path] += fmt.Sprintf("%s %t ", f.Verdict, strings.Contains(f.Message, "not judged"))
		}
	}
	want := map[string]string{
		"prove.outages[0]": "violated false holds true ", "prove.outages[1]": "violated false holds true ", "prove.outages[2]": "holds true holds true ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"{path: policies.a.B}":             "prove.outages[0].lasts: missing",
		"{lasts: 1s}":                      "prove.outages[0].path: missing",
		"{path: policies.a.B, lasts: -1s}": "prove.outages[0].lasts: -1s must be at least 1ms",
	} {
		_, err := policyfile.Parse("policies.yaml", []byte("version: 1\npolicies: {a.B: {}}\nprove: {outages: ["+text+"]}\n"), policyfile.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func replay(t *testing.T, list []prove.Finding) {
	t.Helper()
	for _, f := range list {
		if f.Verdict != prove.Violated {
			continue
		}
		if f.Counterexample == nil {
			if f.Code != "suppression-unused" && !strings.HasPrefix(f.Path, "prove.outages") && (f.Code != "budget-never-binds" || !strings.Contains(f.Message, "no policy of the document asks it")) {
				t.Errorf("%s has no counterexample", f.Code)
			}
			continue
		}
		if err := f.Counterexample.Replay(); err != nil {
			t.Errorf("%s: %v", f.Code, err)
		}
	}
}

func TestViolationsNameTheFieldAndItsPlace(t *testing.T) {
	list := prove.Violations(findings(t, `version: 1
defaults:
  calls: {hedge: {enabled: true}}
policies:
  a.B: {retry: {max_attempts: 2}}
  a.C: {hedge: {delay: 400ms}, retry: {timeout: 300ms}}
consumers:
  orders:
    loop: {transaction_timeout: 1s}
    steps: {process: {retry: {max_attempts: 3, backoff: 600ms}}}
`, ""))
	var got []string
	for _, f := range list {
		got = append(got, fmt.Sprintf("%s %s:%d:%d", f.Code, f.Path, f.Line, f.Column))
	}
	want := []string{
		"hedge-always-launches defaults.calls.hedge:3:11", "hedge-never-launches policies.a.C.hedge.delay:6:17",
		"attempt-unreachable consumers.orders.loop.transaction_timeout:9:12",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if caret := list[1].Fault.Caret(); !strings.Contains(caret, "delay: 400ms") || !strings.HasSuffix(caret, strings.Repeat(" ", 16)+"^") {
		t.Errorf("caret:\n%s", caret)
	}
}

func TestSuppressionsAreStrict(t *testing.T) {
	for text, problem := range map[string]string{
		"prove: {suppress: [{code: zero-delay, path: a}]}":                        "prove.suppress[0].reason: missing",
		"prove: {suppress: [{code: zero-delay, path: a, reason: ''}]}":            "prove.suppress[0].reason: missing",
		"prove: {suppress: [{code: zero-delay, path: a, reason: b, because: c}]}": "unknown field",
		"prove: {suppress: [zero-delay]}":                                         "expected an object",
		"prove: {suppress: zero-delay}":                                           "expected a list",
	} {
		_, err := policyfile.Parse("p", []byte("version: 1\n"+text), policyfile.Options{})
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", text, err)
		}
	}
	list := prove.Violations(findings(t, "version: 1\nprove: {suppress: [{code: zero-delays, path: a, reason: b}]}\n", ""))
	if len(list) != 1 || !strings.Contains(list[0].Message, `did you mean "zero-delay"`) {
		t.Errorf("an unknown code: %+v", list)
	}
}

// TestT1TenThousandPoliciesAreProvedWithinASecond: the first document is the bar; the second has a budget for each four of its
// policies, about as much as a document may hold. Reading is logged beside it.
func TestT1TenThousandPoliciesAreProvedWithinASecond(t *testing.T) {
	const policies = 10_000
	for name, c := range map[string]struct {
		budgets  int
		findings int
	}{
		"policies":              {0, 4 * policies},
		"policies with budgets": {policies / 4, 5 * policies},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			text.WriteString("version: 1\n")
			if c.budgets > 0 {
				text.WriteString("budgets:\n")
			}
			for i := range c.budgets {
				fmt.Fprintf(&text, "  b%d: {kind: retry_ratio}\n", i)
			}
			text.WriteString("policies:\n")
			for i := range policies {
				fields := "max_attempts: 3, timeout: 1s"
				if c.budgets > 0 {
					fields = fmt.Sprintf("budget: {name: b%d}", i%c.budgets)
				}
				fmt.Fprintf(&text, "  s%d.Get: {retry: {%s}}\n", i, fields)
			}
			began := time.Now()
			d, err := policyfile.Parse("p", []byte(text.String()), policyfile.Options{})
			if err != nil {
				t.Fatal(err)
			}
			read := time.Since(began)
			list, err := prove.Document(d, nil)
			if err != nil || len(list) < c.findings {
				t.Fatal(len(list), err)
			}
			proved := time.Since(began) - read
			t.Logf("read in %s, proved in %s", read, proved)
			if c.budgets == 0 && !testing.Short() && proved > time.Second {
				t.Errorf("proved in %s", proved)
			}
		})
	}
}
