package policyfile

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenetdev/tenet/policy"
)

func TestP12APolicyInJSONMeansWhatADocumentMeans(t *testing.T) {
	for _, text := range []string{
		`{"retry": {"max_pushback": null}}`,
		`{"category": "NATS_CONNECT", "retry": {"timeout": null}}`,
		`{"retry": {"jitter": "proportional", "jitter_factor": 0}}`,
		`{"retry": {"timeout": "none", "overall_timeout": ""}, "hedge": "none", "category": ""}`,
		`{"retry": {"backoff": " 5s "}}`,
		`{"retry": {"backoff": "-0s"}}`,
		`{"retry": {"retry_on": ["a\nb"]}}`,
		`{"retry": {"budget": {"name": ""}}}`,
		`{"hedge": {"enabled": true, "trigger": ""}}`,
	} {
		document, _, refused := ParsePolicy("p", []byte(text), policy.Key{Name: "a"}, Options{})
		var p policy.Policy
		if err := json.Unmarshal([]byte(text), &p); (err == nil) != (refused == nil) {
			t.Errorf("%s: the document says %v, the codec %v", text, refused, err)
		}
		if refused != nil {
			continue
		}
		if p, err := p.Normalize(policy.CallLimits()); err != nil || !cmp.Equal(document.Retry, p.Retry, cmpopts.EquateEmpty()) {
			t.Errorf("%s: %v, document against codec %s", text, err, cmp.Diff(document.Retry, p.Retry))
		}
	}
}

func TestP1AllOfJSONIsRead(t *testing.T) {
	for _, id := range []string{`x\\ud83d`, `\\\ud83d\ude00`, "\u0085", "\u0090", "\ufeff", "\ufffe", "\uffff", "\u2028", "\x7f"} {
		var want string
		if err := json.Unmarshal([]byte(`"x`+id+`y"`), &want); err != nil {
			t.Fatal(err)
		}
		d, err := Parse("p.json", []byte(`{"version": 1, "policies": {"a": {"id": "x`+id+`y"}}}`), Options{})
		if err != nil {
			t.Errorf("%q: %v", id, err)
		} else if got := ask(t, d, policy.ParseKey("a")).ID; got != want {
			t.Errorf("%q is read as %q", want, got)
		}
	}
	refuse(t, `{"version": 1, "policies": {"a": {"id": "\\ud83d\ude00"}}}`) // a backslash, and half of a character
}

func TestP1BothVersionsOfYAMLAreRead(t *testing.T) {
	for _, directive := range []string{"%YAML 1.1\n", "%YAML 1.2\n", "# about\n\n%YAML 1.2\n"} {
		text := directive + "---\nversion: 1\npolicies: {a: {}}\n"
		if _, err := Format("p.yaml", []byte(text), Options{}); err != nil {
			t.Errorf("%q: %v", directive, err)
		}
	}
}
