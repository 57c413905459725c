package prove_test

import (
	"encoding/json"
	"testing"

	"github.com/tenetdev/tenet/prove"
)

func TestSARIFNamesTheRulePlaceAndVerdict(t *testing.T) {
	text, err := prove.SARIF(findings(t, `version: 1
consumers: {a: {steps: {process: {retry: {max_attempts: 5}}}}, b: {steps: {process: {retry: {max_attempts: 5}}}}}
prove: {suppress: [{code: zero-delay, path: consumers.a.steps.process.retry, reason: it waits}]}
`, ""))
	if err != nil {
		t.Fatal(err)
	}
	var log struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID, Kind, Level string
				RuleIndex           int
				Suppressions        []struct{ Justification string }
				Locations           []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine, StartColumn int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &log); err != nil || log.Version != "2.1.0" || len(log.Runs) != 1 {
		t.Fatalf("%v in\n%s", err, text)
	}
	failed, accepted := 0, 0
	for _, r := range log.Runs[0].Results {
		if rule := log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID; rule != r.RuleID {
			t.Errorf("rule %s has the index of %s", r.RuleID, rule)
		}
		if r.Kind != "fail" {
			if r.Kind != "pass" || r.Level != "none" {
				t.Errorf("%+v", r)
			}
			continue
		}
		at := r.Locations[0].PhysicalLocation
		if r.RuleID != "zero-delay" || r.Level != "warning" || at.ArtifactLocation.URI != "policies.yaml" || at.Region.StartLine != 2 || at.Region.StartColumn < 2 {
			t.Errorf("%+v", r)
		}
		failed, accepted = failed+1, accepted+len(r.Suppressions)
	}
	if failed != 2 || accepted != 1 {
		t.Errorf("%d failed, %d accepted", failed, accepted)
	}
}
