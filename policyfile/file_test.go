package policyfile

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

func TestP1FilesAreWrittenAsDocumentsThatParse(t *testing.T) {
	retry := policy.Retry{MaxAttempts: 4, InitialBackoff: 50 * time.Millisecond, TimeoutPerAttempt: 1500 * time.Millisecond, BackoffMultiplier: 1.5,
		RetryOn: []policy.Class{"quota", policy.ClassTimeout}, Budget: policy.BudgetRef{Name: "17", Cost: 2}}
	f := File{
		Declared: Declared{Classes: []policy.Class{"quota"}},
		Limits:   Limits{Calls: policy.Tightening{MaxAttempts: 5, MaxBackoffCap: time.Minute}},
		Defaults: Defaults{Calls: CallDefaults{Hedge: policy.Hedge{HedgeDelay: time.Second}}, Jobs: policy.Job{Timeout: time.Hour}},
		Budgets:  map[string]policy.Budget{"17": {Kind: policy.BudgetRetryRatio, Ratio: 0.1}},
		Policies: map[string]policy.Policy{
			"s.Do":    {ID: "none", Category: policy.KVGet, Retry: retry, Hedge: policy.Hedge{Enabled: true}, Circuit: policy.Circuit{Kind: policy.CircuitSlow}},
			"a.Empty": {},
		},
		Queues: map[string]policy.Queue{"q": {Concurrency: 3}},
		Jobs:   map[string]policy.Job{"j": {Retry: policy.Retry{MaxAttempts: 100}}},
		Consumers: map[string]policy.Consumer{"c": {
			Loop:  policy.ConsumerLoop{Streaming: true, Concurrency: policy.Concurrency{Value: 4}},
			Steps: policy.ConsumerSteps{Fetch: policy.FetchStep{Extra: map[string]any{"n": 1.0, "s": "true", "l": []any{nil, 0.5}}}},
		}},
		Producers: map[string]policy.Producer{"p": {}},
	}
	text, err := f.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "version: 1\ndeclared:\n") || !strings.Contains(string(text), "timeout: 1.5\n") {
		t.Errorf("written as\n%s", text)
	}
	d, err := Parse("written.yaml", text, Options{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	p := ask(t, d, policy.ParseKey("s.Do"))
	if p.ID != "none" || p.Retry.TimeoutPerAttempt != retry.TimeoutPerAttempt || p.Retry.Budget != retry.Budget || p.Hedge.HedgeDelay != time.Second ||
		p.Circuit.Kind != policy.CircuitSlow || !cmp.Equal(p.Retry.RetryOn, retry.RetryOn) || p.Category != policy.KVGet {
		t.Errorf("%+v", p)
	}
	c, _ := d.Set.Consumer("c")
	if diff := cmp.Diff(f.Consumers["c"].Steps.Fetch.Extra, c.Steps.Fetch.Extra); diff != "" {
		t.Error(diff)
	}
	if !d.Set.Named(policy.ParseKey("a.Empty")) || !d.Set.Named(policy.ProducerKey("p", "produce")) || ask(t, d, policy.JobKey("q", "j")).Retry.MaxAttempts != 100 {
		t.Errorf("keys %v", d.Set.Keys())
	}
}

func TestP1DurationsAreWrittenAsTheNearestNumber(t *testing.T) {
	p := policy.Policy{Retry: policy.Retry{TimeoutPerAttempt: 1118 * time.Millisecond}}
	text, err := File{Policies: map[string]policy.Policy{"a": p}}.Marshal()
	if err != nil || !strings.Contains(string(text), "timeout: 1.118\n") {
		t.Errorf("%v in\n%s", err, text)
	}
	if data, err := p.MarshalJSON(); err != nil || string(data) != `{"retry":{"timeout":1.118}}` {
		t.Errorf("%s, %v", data, err)
	}
	spelt := accept(t, "policies: {a: {retry: {timeout: 1.118s}}}").Set.Revision()
	if number := accept(t, "policies: {a: {retry: {timeout: 1.118}}}").Set.Revision(); number != spelt {
		t.Errorf("revisions %s and %s", spelt, number)
	}
}

func TestSchemaDescribesItsFields(t *testing.T) {
	schema := string(Schema())
	for _, want := range []string{
		`"$schema": "https://json-schema.org/draft/2020-12/schema"`,
		descriptions()["Retry.max_attempts"], descriptions()["Hedge"], `"StepRetry"`, `"proportional"`,
	} {
		if want == "" || !strings.Contains(schema, want) {
			t.Errorf("the schema lacks %q", want)
		}
	}
}
