package ui

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/job"
)

func TestU4AChangeThatIsCutShortSaysWhatIsLeft(t *testing.T) {
	for _, v := range jobVerbs {
		for want, b := range map[string]batches{
			"1,000 of 1,001 jobs in 20 s. Repeat the action for the others.":     {changed: 1000, most: 1001, over: true},
			"1,000 of 1,001 jobs, and then the server did not go on: it is away": {changed: 1000, most: 1001, fault: errors.New("it is away")},
			"1,001 jobs. ": {changed: 1001, most: 1001, over: true},
		} {
			got := b.notice(v) + " "
			if !strings.Contains(got, want) || v.action == job.ActionCancel && strings.Contains(got, v.done) { // some may still run
				t.Errorf("%s: %q, want %q", v.verb, got, want)
			}
		}
	}
	cancel := jobVerb{action: job.ActionCancel}
	if done := (&batches{changed: 2, most: 3}); done.partial() || strings.Contains(done.notice(cancel), "Repeat") {
		t.Errorf("jobs that have ended meanwhile are not left: %q", done.notice(cancel))
	}
}
