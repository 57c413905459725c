package audit

import (
	"testing"
	"time"
)

// TestA4AJobEndedByALostLeaseIsFinished: the job is dead although no decision was recorded.
func TestA4AJobEndedByALostLeaseIsFinished(t *testing.T) {
	s := storyOf([]Event{{
		Type: JobTransition, WorkID: "job-1", WorkSeq: 299, Time: time.Unix(1, 0), From: "running", To: "dead", Reason: "lease_expired",
		TotalAttempts: 1,
	}}, nil)
	if s.Result != "stop" || s.Reason != "lease_expired" || s.Attempts != 1 {
		t.Errorf("%s (%s) after %d attempts", s.Result, s.Reason, s.Attempts)
	}
}
