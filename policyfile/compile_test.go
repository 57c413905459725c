package policyfile

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

// accept parses a document that must be valid, after adding the version.
func accept(t testing.TB, text string) *Document {
	t.Helper()
	d, err := Parse("doc.yaml", []byte("version: 1\n"+text), Options{})
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return d
}

// refuse parses a document that must be invalid and returns its faults.
func refuse(t testing.TB, text string) []Fault {
	t.Helper()
	_, err := Parse("doc.yaml", []byte(text), Options{})
	var refused *Error
	if !errors.As(err, &refused) {
		t.Fatalf("error %v", err)
	}
	return refused.Faults
}

func ask(t testing.TB, d *Document, key policy.Key) *policy.Policy {
	t.Helper()
	p, err := d.Set.Policy(t.Context(), key)
	if err != nil || p.Key != key || !p.Compiled() {
		t.Fatalf("policy of %s: %+v, %v", key, p, err)
	}
	return p
}

func TestP12EntriesOverrideDefaultsFieldByField(t *testing.T) {
	d := accept(t, `
defaults: {calls: {retry: {max_attempts: 5, backoff: 30ms, timeout: 1s}, hedge: {delay: 50ms, trigger: p90}, circuit: {kind: rate, cooldown: 2s}}}
policies:
  a.B: {retry: {max_attempts: 2}, hedge: {enabled: true}, circuit: {window: 1m}}
`)
	p := ask(t, d, policy.ParseKey("a.B"))
	got := []any{p.Retry.MaxAttempts, p.Retry.InitialBackoff, p.Retry.TimeoutPerAttempt, p.Retry.MaxBackoff, p.Hedge.HedgeDelay, p.Hedge.TriggerName, p.Circuit.Kind, p.Circuit.Window, p.Circuit.Cooldown}
	want := []any{2, 30 * time.Millisecond, time.Second, 250 * time.Millisecond, 50 * time.Millisecond, "p90", policy.CircuitRate, time.Minute, 2 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	other := ask(t, d, policy.ParseKey("x.Y"))
	if other.Retry.MaxAttempts != 5 || other.Hedge.Enabled || other.Meta.Source != policy.SourceFile {
		t.Errorf("unnamed key: %+v", other)
	}
}

func TestP3DocumentNamesSetTheFieldsOfGo(t *testing.T) {
	d := accept(t, `
budgets: {shared: {kind: token_bucket, capacity: 10, refill_per_second: 1}}
policies:
  a.B: {retry: {max_attempts: 4, backoff: 30ms, backoff_multiplier: 3, backoff_cap: 1s, jitter: proportional, jitter_factor: 0.3, timeout: 2s,
    overall_timeout: 9s, classifier: http, retry_on: [http_503], abort_on: [timeout], max_pushback: 4s, budget: {name: shared, cost: 2}}}
`)
	want := policy.Retry{
		MaxAttempts: 4, InitialBackoff: 30 * time.Millisecond, BackoffMultiplier: 3, MaxBackoff: time.Second, Jitter: policy.JitterProportional,
		JitterFactor: 0.3, TimeoutPerAttempt: 2 * time.Second, OverallTimeout: 9 * time.Second, ClassifierName: "http",
		RetryOn: []policy.Class{"http_503"}, AbortOn: []policy.Class{"timeout"}, MaxPushback: 4 * time.Second,
		Budget: policy.BudgetRef{Name: "shared", Cost: 2},
	}
	if diff := cmp.Diff(want, ask(t, d, policy.ParseKey("a.B")).Retry); diff != "" {
		t.Error(diff)
	}
}

func TestP12NullMeansNone(t *testing.T) {
	d, err := Parse("none.yaml", corpus(t, "valid")["none-spellings.yaml"], Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"null", "empty", "word"} {
		p := ask(t, d, policy.ParseKey(name))
		want := policy.DefaultPolicyFor(p.Key)
		want.Retry.MaxPushback = 100 * 365 * 24 * time.Hour // explicitly unbounded
		if diff := cmp.Diff(want.Retry, p.Retry); diff != "" || p.Hedge.Enabled || p.Circuit.Kind != "" {
			t.Errorf("%s: %s %+v %+v", name, diff, p.Hedge, p.Circuit)
		}
	}
	blank := ask(t, d, policy.ParseKey("blank"))
	if blank.Retry.TimeoutPerAttempt != 0 || blank.Retry.OverallTimeout != 9*time.Second || !blank.Hedge.Enabled {
		t.Errorf("want none for the timeout only: %+v", blank)
	}
}

func TestP12DefaultsOverrideTheCatalog(t *testing.T) {
	d := accept(t, `
defaults: {calls: {retry: {max_attempts: 7}}}
policies:
  row: {category: KV_GET}
  none: {category: KV_GET, retry: {timeout: null, jitter: full, backoff: 0}}
`)
	row := ask(t, d, policy.ParseKey("row"))
	if row.Retry.MaxAttempts != 7 || row.Retry.InitialBackoff != 500*time.Millisecond || row.Retry.TimeoutPerAttempt != 5*time.Second ||
		row.Retry.Jitter != policy.JitterProportional || row.Retry.JitterFactor != 0.1 || row.Category != policy.KVGet {
		t.Errorf("row: %+v", row)
	}
	none := ask(t, d, policy.ParseKey("none"))
	if none.Retry.TimeoutPerAttempt != 0 || none.Retry.InitialBackoff != 10*time.Millisecond || none.Retry.Jitter != policy.JitterFull {
		t.Errorf("fields that are explicitly none came from the catalog: %+v", none.Retry)
	}
	again, err := none.Clone().Normalize(policy.CallLimits())
	if err != nil || again.Retry.TimeoutPerAttempt != 0 {
		t.Errorf("normalising again brought the catalog's timeout back: %+v, %v", again.Retry, err)
	}
	if revision, _ := none.Revise(); revision != none.Meta.Revision {
		t.Errorf("revision %s, want %s", none.Meta.Revision, revision)
	}
}

func TestP12JobsInheritFromQueueThenDefaults(t *testing.T) {
	d := accept(t, `
budgets: {a: {kind: unlimited}, b: {kind: unlimited}}
defaults: {jobs: {retry: {max_attempts: 9, backoff: 1s, timeout: 10s, budget: {name: a}}}}
queues:
  mail: {concurrency: 3, timeout: 20s, retry: {max_attempts: 8, backoff: 2s}}
  slow: {retry: {timeout: 40s}}
jobs:
  send: {retry: {max_attempts: 4}, budget: {name: b}}
  long: {timeout: 30s}
  free: {timeout: null, retry: {budget: null}}
`)
	type row struct {
		Attempts         int
		Backoff, Timeout time.Duration
		Budget           string
	}
	for name, c := range map[string]struct {
		key  policy.Key
		want row
	}{
		"queue and type":      {policy.JobKey("mail", "send"), row{4, 2 * time.Second, 20 * time.Second, "b"}},
		"type over queue":     {policy.JobKey("slow", "long"), row{9, time.Second, 30 * time.Second, "a"}},
		"queue over defaults": {policy.JobKey("slow", "send"), row{4, time.Second, 40 * time.Second, "b"}},
		"none over queue":     {policy.JobKey("mail", "free"), row{8, 2 * time.Second, 0, ""}},
		"unknown type":        {policy.JobKey("mail", "other"), row{8, 2 * time.Second, 20 * time.Second, "a"}},
		"unknown queue":       {policy.JobKey("else", "send"), row{4, time.Second, 10 * time.Second, "b"}},
		"neither":             {policy.JobKey("else", "other"), row{9, time.Second, 10 * time.Second, "a"}},
	} {
		p := ask(t, d, c.key)
		if got := (row{p.Retry.MaxAttempts, p.Retry.InitialBackoff, p.Retry.TimeoutPerAttempt, p.Retry.Budget.Name}); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	if d.Set.Queues()["mail"].Concurrency != 3 {
		t.Errorf("queues %+v", d.Set.Queues())
	}
}

func TestL1StepsInheritFromDefaults(t *testing.T) {
	d := accept(t, `
defaults: {steps: {retry: {max_attempts: 4, backoff: 1s}}}
consumers:
  orders: {loop: {streaming: true, empty_queue: {backoff_cap: 90}}, steps: {fetch: {retry: {max_attempts: 2}, extra: {part: 7}}, process: {retry: {backoff: 0, timeout: 5}}}}
producers:
  bills: {steps: {produce: {retry: {max_attempts: 1}}}}
`)
	orders, ok := d.Set.Consumer("orders")
	if !ok || orders.Loop.Batch.Size != 1 || orders.Loop.EmptyQueue.Backoff != time.Second || orders.Loop.EmptyQueue.BackoffCap != 90*time.Second {
		t.Errorf("consumer %+v", orders)
	}
	if diff := cmp.Diff(map[string]any{"part": 7.0}, orders.Steps.Fetch.Extra); diff != "" {
		t.Error(diff)
	}
	bills, _ := d.Set.Producer("bills")
	for step, c := range map[policy.Key]struct {
		attempts int
		backoff  time.Duration
		retry    policy.Retry
	}{
		policy.ConsumerKey("orders", "fetch"):     {2, time.Second, orders.Steps.Fetch.Retry},
		policy.ConsumerKey("orders", "process"):   {4, 0, orders.Steps.Process.Retry},
		policy.ConsumerKey("orders", "success"):   {4, time.Second, orders.Steps.Success.Retry},
		policy.ConsumerKey("orders", "exception"): {4, time.Second, orders.Steps.Exception.Retry},
		policy.ProducerKey("bills", "produce"):    {1, time.Second, bills.Steps.Produce.Retry},
		policy.ProducerKey("bills", "success"):    {4, time.Second, bills.Steps.Success.Retry},
		policy.ProducerKey("bills", "exception"):  {4, time.Second, bills.Steps.Exception.Retry},
		policy.ConsumerKey("other", "process"):    {4, time.Second, ask(t, d, policy.ConsumerKey("other", "process")).Retry},
	} {
		p := ask(t, d, step)
		if p.Retry.MaxAttempts != c.attempts || p.Retry.InitialBackoff != c.backoff {
			t.Errorf("%s: %+v", step, p.Retry)
		}
		if diff := cmp.Diff(p.Retry, c.retry); diff != "" {
			t.Errorf("%s differs from its consumer's or producer's value: %s", step, diff)
		}
	}
}

func TestP6JitterFactorZeroIsNoJitter(t *testing.T) {
	d := accept(t, `
defaults: {calls: {retry: {jitter: proportional, jitter_factor: 0.3}}}
policies:
  zero: {retry: {jitter_factor: 0}}
  inherits: {}
  full: {retry: {jitter: full}}
  full-zero: {retry: {jitter: full, jitter_factor: 0}}
  row: {category: KV_GET, retry: {jitter_factor: 0}}
jobs:
  zero: {retry: {jitter_factor: 0}}
`)
	for name, want := range map[string]policy.Retry{
		"zero":      {Jitter: policy.JitterNone},
		"inherits":  {Jitter: policy.JitterProportional, JitterFactor: 0.3},
		"full":      {Jitter: policy.JitterFull},
		"full-zero": {Jitter: policy.JitterFull},
		"row":       {Jitter: policy.JitterNone},
	} {
		if r := ask(t, d, policy.ParseKey(name)).Retry; r.Jitter != want.Jitter || r.JitterFactor != want.JitterFactor {
			t.Errorf("%s: %s %g", name, r.Jitter, r.JitterFactor)
		}
	}
	if r := ask(t, d, policy.JobKey("", "zero")).Retry; r.Jitter != policy.JitterNone {
		t.Errorf("job: %s %g", r.Jitter, r.JitterFactor)
	}
	if len(d.Warnings) != 0 {
		t.Errorf("warnings: %v", d.Warnings)
	}
}

func TestP8DocumentsTightenLimits(t *testing.T) {
	d := accept(t, `
limits: {calls: {max_attempts: 2, max_backoff_cap: 100ms}, steps: {max_backoff_cap: 1m, min_backoff: 1s}}
policies:
  a: {retry: {max_attempts: 3}}
consumers: {c: {}}
`)
	if p := ask(t, d, policy.ParseKey("a")); p.Retry.MaxAttempts != 2 || p.Retry.MaxBackoff != 100*time.Millisecond {
		t.Errorf("named: %+v", p.Retry)
	}
	unnamed := ask(t, d, policy.ParseKey("b"))
	if unnamed.Retry.MaxAttempts != 2 || unnamed.Meta.Source != policy.SourceDefault {
		t.Errorf("unnamed: %+v", unnamed)
	}
	if step := ask(t, d, policy.ConsumerKey("c", "fetch")); step.Retry.MaxBackoff != time.Minute || step.Retry.InitialBackoff != time.Second {
		t.Errorf("a step without a cap passes the limit: %+v", step.Retry)
	}
	if d.Set.CallLimits().Attempts.Max != 2 {
		t.Errorf("limits %+v", d.Set.CallLimits())
	}
	want := "doc.yaml:5:29: policies.a.retry.max_attempts: 3 is above the limit and is lowered to 2; write 2 or less"
	if len(d.Warnings) != 1 || d.Warnings[0].String() != want || !d.Warnings[0].Warning {
		t.Errorf("warnings: %v", d.Warnings)
	}
}

func TestP8OperatorsWidenLimits(t *testing.T) {
	wide := policy.CallLimits()
	wide.Attempts.Max = 100
	o := Options{Source: policy.SourceRemote, Limits: map[policy.Surface]policy.Limits{policy.SurfaceCall: wide}}
	d, err := Parse("doc.yaml", []byte("version: 1\nlimits: {calls: {max_attempts: 60}}\npolicies: {a: {retry: {max_attempts: 50}}}\n"), o)
	if err != nil || len(d.Warnings) != 0 {
		t.Fatalf("%v, %v", d, err)
	}
	if p := ask(t, d, policy.ParseKey("a")); p.Retry.MaxAttempts != 50 || p.Meta.Source != policy.SourceRemote {
		t.Errorf("%+v", p)
	}
}

func TestP2AKeyWithAnAsteriskIsNoPattern(t *testing.T) {
	d := accept(t, "policies: {mail.*: {retry: {max_attempts: 9}}}\n")
	if p := ask(t, d, policy.ParseKey("mail.Send")); p.Retry.MaxAttempts == 9 {
		t.Error("it serves other keys")
	}
	want := "doc.yaml:2:12: policies.mail.*: * is not a wildcard: names match exactly; write an entry for each name"
	if len(d.Warnings) != 1 || d.Warnings[0].String() != want {
		t.Errorf("warnings: %v", d.Warnings)
	}
}

func TestP7ADefaultsWarningIsGivenOnce(t *testing.T) {
	d := accept(t, `
defaults: {jobs: {retry: {max_attempts: 5000}}}
queues: {a: {}, b: {}, c: {retry: {max_attempts: 5000}}}
jobs: {x: {}, y: {retry: {backoff_multiplier: 50}}}
`)
	var got []string
	for _, w := range d.Warnings {
		got = append(got, w.Path)
	}
	if diff := cmp.Diff([]string{"defaults.jobs.retry.max_attempts", "queues.c.retry.max_attempts", "jobs.y.retry.backoff_multiplier"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestP6AFaultOfQueueAndTypeTogetherIsReportedAtTheType(t *testing.T) {
	faults := refuse(t, `version: 1
queues: {a: {retry: {abort_on: [tls]}}, b: {}}
jobs: {x: {retry: {retry_on: [tls]}}, y: {retry: {retry_on: [eof], abort_on: [eof]}}}
`)
	var got []string
	for _, f := range faults {
		got = append(got, f.Path+": "+f.Problem)
	}
	want := []string{`jobs.x.retry.retry_on: class "tls" is also in abort_on`, `jobs.y.retry.retry_on: class "eof" is also in abort_on`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestP6AFaultOfTheCombinationIsReportedAtTheEntry(t *testing.T) {
	d := accept(t, "defaults: {calls: {retry: {backoff_cap: 1s}}}\npolicies:\n  a:\n    retry: {backoff: 5s}\n")
	want := "doc.yaml:5:12: policies.a.retry.backoff_cap: 1s is below the backoff of 5s and is raised to it; raise backoff_cap or lower backoff"
	if len(d.Warnings) != 1 || d.Warnings[0].String() != want {
		t.Errorf("warnings: %v", d.Warnings)
	}
}

func TestP8EveryChangedValueIsAWarning(t *testing.T) {
	for text, want := range map[string]string{
		"policies: {a: {retry: {backoff: 0}}}":                                                                           "policies.a.retry.backoff: 0 is replaced by the default, 10ms",
		"policies: {a: {retry: {backoff_cap: 0}}}":                                                                       "policies.a.retry.backoff_cap: 0 is replaced by the default, 250ms",
		"defaults: {jobs: {retry: {backoff: 0s}}}":                                                                       "defaults.jobs.retry.backoff: 0 is replaced by the default, 200ms",
		"policies: {a: {retry: {jitter_factor: 0.3}}}":                                                                   "policies.a.retry.jitter_factor: has no effect with jitter full",
		"jobs: {a: {retry: {backoff: 5, backoff_cap: 3}}}":                                                               "jobs.a.retry.backoff_cap: 3s is below the backoff of 5s and wins: no wait is longer",
		"producers: {a: {steps: {produce: {retry: {backoff: 5, backoff_cap: 3}}}}}":                                      "producers.a.steps.produce.retry.backoff_cap: 3s is below the backoff of 5s and wins: no wait is longer",
		"limits: {steps: {max_backoff_cap: 9}}\nproducers: {a: {steps: {produce: {retry: {backoff_cap: 0}}}}}":           "producers.a.steps.produce.retry.backoff_cap: 0, no cap, is above the limit and is lowered to 9s",
		"limits: {steps: {min_backoff: 2}}\nproducers: {a: {steps: {produce: {retry: {backoff: 0}}}}}":                   "producers.a.steps.produce.retry.backoff: 0 is below the limit and is raised to 2s",
		"consumers: {a: {loop: {empty_queue: {backoff: 0}}}}":                                                            "consumers.a.loop.empty_queue.backoff: 0 is below the limit and is raised to 10ms",
		"consumers: {a: {loop: {empty_queue: {backoff: 5, backoff_cap: 3}}}}":                                            "consumers.a.loop.empty_queue.backoff_cap: 3s is below the backoff of 5s and wins: no wait is longer",
		"limits: {steps: {max_backoff_multiplier: 9}}\nconsumers: {a: {loop: {empty_queue: {backoff_multiplier: 100}}}}": "consumers.a.loop.empty_queue.backoff_multiplier: 100 is above the limit and is lowered to 9",
	} {
		d := accept(t, text+"\n")
		if len(d.Warnings) != 1 || d.Warnings[0].Path+": "+d.Warnings[0].Problem != want || d.Warnings[0].Line < 2 {
			t.Errorf("%s: %v", text, d.Warnings)
		}
	}
}

func TestP7ValuesThatNoFieldHoldsAreClampedWithOneWarning(t *testing.T) {
	d := accept(t, `policies: {a: {retry: {max_attempts: 3000000000, timeout: 1e300, backoff: 99999999h, overall_timeout: 0.1ns}}}
consumers: {c: {loop: {limit: 1e30}}}
`)
	p := ask(t, d, policy.ParseKey("a")).Retry
	c, _ := d.Set.Consumer("c")
	if p.MaxAttempts != 10 || p.TimeoutPerAttempt < 100*365*24*time.Hour || p.InitialBackoff != time.Minute || p.OverallTimeout != time.Millisecond || c.Loop.Limit != 1<<31-1 {
		t.Errorf("%+v, limit %d", p, c.Loop.Limit)
	}
	if len(d.Warnings) != 5 || !strings.Contains(d.Warnings[0].Problem, "3000000000 is too large and is lowered") {
		t.Errorf("warnings: %v", d.Warnings)
	}
}

func TestP8MeaningfulZerosAreNotWarnings(t *testing.T) {
	d := accept(t, `
consumers:
  a:
    loop: {empty_queue: {backoff_cap: 0, backoff_multiplier: 100}}
    steps: {process: {retry: {backoff: 0, backoff_cap: 0, backoff_multiplier: 1000}}}
`)
	c, _ := d.Set.Consumer("a")
	if q := c.Loop.EmptyQueue; len(d.Warnings) != 0 || q.BackoffCap != policy.Unbounded || q.BackoffMultiplier != 100 || q.Backoff != time.Second {
		t.Errorf("%+v, warnings %v", c.Loop.EmptyQueue, d.Warnings)
	}
	if r := c.Steps.Process.Retry; r.InitialBackoff != 0 || r.MaxBackoff != 0 || r.BackoffMultiplier != 1000 {
		t.Errorf("%+v", r)
	}
}

func TestP10RevisionIsOfTheMeaningNotTheSpelling(t *testing.T) {
	revisions := map[string]bool{}
	for _, text := range []string{
		"version: 1\npolicies:\n  a: {retry: {timeout: 1500ms, max_attempts: 3, classifier: none}, hedge: ~}\n",
		"# comment\npolicies: {a: {hedge: \"\", retry: {classifier: , max_attempts: 3.0, timeout: 1.5}}}\nversion: 1\n",
		`{"version": 1, "policies": {"a": {"hedge": null, "retry": {"timeout": "1.5s", "max_attempts": 3, "classifier": null}}}}`,
	} {
		d, err := Parse("d", []byte(text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		revisions[d.Set.Revision()] = true
	}
	if len(revisions) != 1 {
		t.Errorf("one document, revisions %v", revisions)
	}
	if other := accept(t, "policies: {a: {retry: {timeout: 1.5, max_attempts: 3}}}").Set.Revision(); revisions[other] || len(other) != 64 {
		t.Errorf("another document has revision %s", other)
	}
}

func TestP1CompiledPoliciesSurviveJSON(t *testing.T) {
	for name, text := range corpus(t, "valid") {
		d, err := Parse(name, text, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range d.Set.Keys() {
			p := ask(t, d, key)
			raw, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			back := policy.Policy{Key: key, Meta: p.Meta}
			if err := json.Unmarshal(raw, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*p, back, cmp.AllowUnexported(policy.Meta{})); diff != "" {
				t.Errorf("%s %s: %s", name, key, diff)
			}
		}
	}
}

func TestP13BudgetsAreCompiledWithDefaults(t *testing.T) {
	d := accept(t, "budgets: {r: {kind: retry_ratio}}")
	if got := d.Set.Budgets()["r"]; got != (policy.Budget{Kind: policy.BudgetRetryRatio, Ratio: 0.2, Burst: 10}) {
		t.Errorf("%+v", got)
	}
}

func TestTooManyPairsOfQueuesAndTypes(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\n")
	for _, section := range []string{"queues", "jobs"} {
		b.WriteString(section + ":\n")
		for i := range 101 {
			b.WriteString("  n" + strings.Repeat("x", i) + ": {}\n")
		}
	}
	faults := refuse(t, b.String())
	if len(faults) != 1 || !strings.Contains(faults[0].Problem, "101 queues and 101 job types") || faults[0].Line != 2 {
		t.Errorf("%v", faults)
	}
}

func TestP6EntriesWhoseNamesLookLikeFieldsAreKept(t *testing.T) {
	for _, text := range []string{
		"policies:\n  users: {retry: {max_attempts: 7}}\n  users.retry: {retry: {max_attempts: 9}}\n",
		"policies:\n  users.retry: {retry: {max_attempts: 9}}\n  users: {retry: {max_attempts: 7}}\n",
	} {
		d := accept(t, text)
		for key, want := range map[string]int{"users": 7, "users.retry": 9} {
			if p := ask(t, d, policy.ParseKey(key)); p.Retry.MaxAttempts != want {
				t.Errorf("%s makes %d attempts in\n%s", key, p.Retry.MaxAttempts, text)
			}
		}
	}
	d := accept(t, "queues:\n  mail.limits: {concurrency: 2}\n  mail: {limits: [{name: one, concurrency: 1}]}\n")
	if n := len(d.Set.Queues()["mail"].Limits); n != 1 {
		t.Errorf("mail has %d limits", n)
	}
	if faults := refuse(t, "version: 1\npolicies:\n  a.retry: {}\n  a: {retry: {max_attempts: -5}}\n"); len(faults) != 1 {
		t.Error(faults)
	}
}
