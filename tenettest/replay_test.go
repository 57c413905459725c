package tenettest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/tenettest"
)

func document(t testing.TB, text string) *policy.Set {
	t.Helper()
	d, err := policyfile.Parse("policies.yaml", []byte(text), policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Set
}

const inForce = "version: 1\npolicies: {payments.Charge: {retry: {max_attempts: 4, backoff: 10ms, backoff_multiplier: 1, jitter: none}}}\n"

// verdicts collects what Replay reports to a test.
type verdicts struct {
	testing.TB
	logged, failed []string
}

func (v *verdicts) Helper()                   {}
func (v *verdicts) Logf(f string, a ...any)   { v.logged = append(v.logged, fmt.Sprintf(f, a...)) }
func (v *verdicts) Error(a ...any)            { v.failed = append(v.failed, fmt.Sprint(a...)) }
func (v *verdicts) Fatalf(f string, a ...any) { panic(fmt.Sprintf(f, a...)) }

func TestT5AnIncidentUnderTheRecordedPoliciesIsTheSame(t *testing.T) {
	r := tenettest.Replay(t, "testdata/incident.json", document(t, inForce))
	r.AssertSame()
	if end := r.End(); end.Reason != policy.ReasonAttemptsExhausted || end.Attempts != 4 {
		t.Errorf("%s", end)
	}
}

func TestT5AnIncidentUnderOtherPoliciesSaysWhereTheyDiffer(t *testing.T) {
	v := &verdicts{TB: t}
	r := tenettest.Replay(v, "testdata/incident.json", document(t, strings.ReplaceAll(inForce, "max_attempts: 4", "max_attempts: 2")))
	if end := r.End(); end.Reason != policy.ReasonAttemptsExhausted || end.Attempts != 2 || len(v.failed) != 0 {
		t.Errorf("%s; %q", end, v.failed)
	}
	if len(v.logged) != 1 || !strings.Contains(v.logged[0], "    recorded: retry after 10ms\n    now:      stop (attempts_exhausted)\n") {
		t.Errorf("%q", v.logged)
	}
	if r.AssertSame(); len(v.failed) != 1 {
		t.Errorf("a difference does not fail the test: %q", v.failed)
	}
	longer := tenettest.Replay(v, "testdata/incident.json", document(t, strings.ReplaceAll(inForce, "max_attempts: 4", "max_attempts: 5")))
	if longer.End().Unknown != audit.UnknownAttempts {
		t.Errorf("the record shows a fifth attempt: %s", longer.End())
	}
}

func TestT5AMissingCaseFailsTheTest(t *testing.T) {
	for _, path := range []string{"testdata/nothing.json", "replay_test.go"} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, path) {
					t.Errorf("%s: %s", path, said)
				}
			}()
			tenettest.Replay(&verdicts{TB: t}, path, document(t, inForce))
		}()
	}
}
