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
