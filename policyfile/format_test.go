package policyfile_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policyfile"
)

const untidy = `# The shop's policies.
version: 1   # of the language
policies:
      # Reads are cheap.
      users.Get: {retry: {backoff: 50ms, max_attempts: 4}}   # four
      users.Put:
          hedge: null
          retry:
              backoff: 1s # slowly
              max_attempts: 2
          id: rev-2
# Shared by all.
budgets:
    shared:
        burst: 10
        ratio: 0.1
        kind: retry_ratio
`

const tidy = `# The shop's policies.
version: 1 # of the language

# Shared by all.
budgets:
  shared:
    kind: retry_ratio
    ratio: 0.1
    burst: 10

policies:
  # Reads are cheap.
  users.Get: {retry: {max_attempts: 4, backoff: 50ms}} # four
  users.Put:
    id: rev-2
    retry:
      max_attempts: 2
      backoff: 1s # slowly
    hedge: null
`

func TestFormatArrangesFieldsAndKeepsCommentsAndNames(t *testing.T) {
	for name, text := range map[string]string{"untidy": untidy, "already tidy": tidy} {
		got, err := policyfile.Format("shop.yaml", []byte(text), policyfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tidy, string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestFormatIndentsJSONAndKeepsAnchors(t *testing.T) {
	for text, want := range map[string]string{
		`{"policies":{"a":{"retry":{"max_attempts":2}}},"version":1}`:                           "{\n  \"policies\": {\n    \"a\": {\n      \"retry\": {\n        \"max_attempts\": 2\n      }\n    }\n  },\n  \"version\": 1\n}\n",
		"policies:\n    a: &a {retry: {backoff: 1s, max_attempts: 2}}\n    b: *a\nversion: 1\n": "policies:\n  a: &a {retry: {backoff: 1s, max_attempts: 2}}\n  b: *a\n\nversion: 1\n",
	} {
		got, err := policyfile.Format("a", []byte(text), policyfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestFormatRefusesWhatParseRefuses(t *testing.T) {
	if got, err := policyfile.Format("a.yaml", []byte("version: 1\npolicies: {a: {retries: 3}}\n"), policyfile.Options{}); err == nil || got != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestTheSchemaHasDefaultsAndExamples(t *testing.T) {
	var schema struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Default  any
				Examples []any
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(policyfile.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	retry := schema.Defs["Retry"].Properties
	for field, want := range map[string]any{"max_attempts": 3.0, "backoff": 0.01, "backoff_multiplier": 2.0, "jitter": "full", "timeout": nil} {
		if diff := cmp.Diff(want, retry[field].Default); diff != "" {
			t.Errorf("%s: %s", field, diff)
		}
	}
	if len(retry["timeout"].Examples) == 0 || len(retry["max_attempts"].Examples) > 0 {
		t.Errorf("examples: %v, %v", retry["timeout"].Examples, retry["max_attempts"].Examples)
	}
}
