package policyfile

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "rewrite the expected faults in testdata")

// corpus returns the documents of a folder of testdata by file name.
func corpus(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	yamls, _ := filepath.Glob(filepath.Join("testdata", folder, "*.yaml"))
	jsons, _ := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
	if len(yamls) == 0 || len(jsons) == 0 {
		t.Fatalf("no documents in %s", folder)
	}
	documents := map[string][]byte{}
	for _, path := range append(yamls, jsons...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		documents[filepath.Base(path)] = text
	}
	return documents
}

func TestP6ValidDocuments(t *testing.T) {
	for name, text := range corpus(t, "valid") {
		if _, err := Parse(name, text, Options{}); err != nil {
			t.Errorf("refused:\n%v", err)
		}
	}
}

// TestP6InvalidDocuments compares all faults of each document, with their positions, to the file next to it.
func TestP6InvalidDocuments(t *testing.T) {
	for name, text := range corpus(t, "invalid") {
		t.Run(name, func(t *testing.T) {
			document, err := Parse(name, text, Options{})
			var refused *Error
			if !errors.As(err, &refused) || document != nil {
				t.Fatalf("document %v, error %v", document, err)
			}
			var got strings.Builder
			for _, f := range refused.Faults {
				got.WriteString(f.String() + "\n" + f.Caret() + "\n")
			}
			golden := filepath.Join("testdata", "invalid", name+".faults")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// beyondSchema marks documents that break a rule that no schema can express: unique and string keys, tags, merge keys, cycles
// and further documents (a schema sees plain data); undefined names; fields that contradict each other or the defaults;
// limits that widen.
const beyondSchema = "x-"

// TestP6SchemaAndParserAgree checks that both accept the valid documents and reject the invalid ones.
func TestP6SchemaAndParserAgree(t *testing.T) {
	schema := compileSchema(t)
	for name, text := range corpus(t, "valid") {
		value, ok := plain(text)
		if err := schema.Validate(value); !ok || err != nil {
			t.Errorf("%s: the schema refuses what the parser accepts: %v", name, err)
		}
	}
	for name, text := range corpus(t, "invalid") {
		value, ok := plain(text)
		err := schema.Validate(value)
		beyond := strings.HasPrefix(name, beyondSchema)
		if ok && (err == nil) != beyond {
			t.Errorf("%s: beyond the schema: %v, but the schema says %v", name, beyond, err)
		}
	}
}

// TestP6SchemaAndParserAgreeOnEveryValue puts each of many values into each field of a document, one at a time.
func TestP6SchemaAndParserAgreeOnEveryValue(t *testing.T) {
	schema := compileSchema(t)
	values := []string{
		"null", `""`, "none", "true", "text", "0", "1", "-1", "0.5", "1.5", "2.0", "11", "3000000000", "1e300", ".inf", ".nan", "-0.0", "1e-12",
		"5s", "250ms", "0s", "-5s", "0.1ns", `"1m 5s"`, "1h30m", "0", "+5s", "2024-01-01", "[]", "[1]", "[timeout]", "{}", "{a: 1}", "full", "rate", "[null]", "[[]]", "0x10", "1_000",
	}
	places := []string{
		"version: %", "declared: %", "declared: {classes: %}", "limits: %", "limits: {jobs: {max_attempts: %}}", "defaults: %", "budgets: %", "budgets: {b: %}",
		"policies: %", "policies: {a: %}", "queues: %", "jobs: %", "consumers: %", "producers: %", "queues: {q: {concurrency: %}}",
		"policies: {a: {id: %}}", "policies: {a: {category: %}}", "policies: {a: {retry: %}}", "policies: {a: {hedge: %}}", "policies: {a: {circuit: %}}",
		"jobs: {j: {timeout: %}}", "jobs: {j: {budget: %}}", "consumers: {c: {loop: {streaming: %}}}", "consumers: {c: {loop: {limit: %}}}",
		"consumers: {c: {loop: {timeout: %}}}", "consumers: {c: {loop: {batch: {interval: %}}}}", "consumers: {c: {loop: {empty_queue: {interval: %}}}}",
		"consumers: {c: {steps: {fetch: {extra: %}}}}", "consumers: {c: {steps: {process: {retry: {overall_timeout: %}}}}}",
		"budgets: {b: {kind: token_bucket, refill_per_second: 1, capacity: %}}", "budgets: {b: {kind: retry_ratio, ratio: %}}", "budgets: {b: {kind: %}}",
	}
	for _, field := range []string{
		"max_attempts", "backoff", "backoff_multiplier", "backoff_cap", "jitter", "jitter_factor", "timeout", "overall_timeout",
		"classifier", "retry_on", "abort_on", "max_pushback", "budget", "unknown",
	} {
		places = append(places, "policies: {a: {retry: {"+field+": %}}}")
	}
	for _, field := range []string{"enabled", "max_hedges", "delay", "trigger", "max_extra_load", "budget"} {
		places = append(places, "policies: {a: {hedge: {"+field+": %}}}")
	}
	for _, field := range []string{"failure_rate", "slow_after", "probes", "window"} {
		places = append(places, "policies: {a: {circuit: {kind: rate, "+field+": %}}}")
	}
	names := "declared: {classes: [text, full, rate, 2024-01-01, 5s], classifiers: [text, full, rate, 2024-01-01, 5s, 250ms, 0s, -5s, 0.1ns, 1m 5s, 1h30m, +5s], " +
		"triggers: [none, text, full, rate, 2024-01-01, 5s, 250ms, 0s, -5s, 0.1ns, 1m 5s, 1h30m, +5s]}\n"
	disagreements, accepted := 0, 0
	for _, where := range places {
		for _, v := range values {
			text := strings.ReplaceAll(where, "%", v) + "\n"
			if !strings.HasPrefix(where, "version") {
				text = "version: 1\n" + text
			}
			if !strings.HasPrefix(where, "declared") {
				text = names + text
			}
			_, err := Parse("d", []byte(text), Options{})
			value, ok := plain([]byte(text))
			if !ok { // JSON cannot express .nan and .inf
				if err == nil {
					t.Errorf("accepted a number that is not finite: %s", text)
				}
				continue
			}
			if err == nil {
				accepted++
			}
			if schemaErr := schema.Validate(value); (err == nil) != (schemaErr == nil) && disagreements < 10 {
				disagreements++
				t.Errorf("%s: parser: %v\nschema: %v", strings.TrimPrefix(text, names), err, schemaErr)
			}
		}
	}
	if accepted < 200 {
		t.Errorf("only %d documents were accepted: the test has lost its subject", accepted)
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	source, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.AddResource("urn:tenet:policy-document:1", source); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("urn:tenet:policy-document:1")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
