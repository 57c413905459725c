package api_test

import (
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// TestU2AStoryFromTheHistoryHasTheAttemptsOfAllRuns: an operator has retried the job, which counts its attempts from 1 again.
func TestU2AStoryFromTheHistoryHasTheAttemptsOfAllRuns(t *testing.T) {
	retry := job.Attempt{Number: 1, Kind: job.KindRetry, Outcome: job.AttemptFailed, Delay: time.Second}
	dead := job.Attempt{Number: 2, Kind: job.KindDead, Outcome: job.AttemptFailed}
	snoozed := job.Attempt{Number: 1, Kind: job.KindSnooze, Outcome: job.AttemptSnoozed}
	r := &job.Record{State: job.Dead, Failures: 2}
	if s := api.NewHistoryStory(r, []job.Attempt{retry, dead, snoozed, retry, dead}); s.Attempts != 4 || s.Waiting != 2 {
		t.Errorf("%d attempts, %v s of waiting", s.Attempts, s.Waiting)
	}
	if s := api.NewHistoryStory(r, nil); s.Attempts != 2 {
		t.Errorf("without its history: %d attempts", s.Attempts)
	}
}
