package workers

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
)

// TestJ8AnOutageDoesNotMeanIdle: a worker that runs until idle continues while the store cannot report its jobs.
func TestJ8AnOutageDoesNotMeanIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &awayStore{outages: 3}
		untilIdle(t.Context(), slog.New(slog.DiscardHandler), s, func() map[string]int { return map[string]int{"default": 1} })
		if s.outages != 0 || s.asked != 5 {
			t.Errorf("%d requests, %d outages left", s.asked, s.outages)
		}
	})
}

// awayStore fails at first, then reports one running job, then none.
type awayStore struct {
	open.JobStore
	outages, asked int
}

func (s *awayStore) Stats(context.Context) (map[string]job.QueueStats, error) {
	s.asked++
	if s.outages > 0 {
		s.outages--
		return nil, errors.New("away")
	}
	return map[string]job.QueueStats{"default": {Running: 5 - s.asked}}, nil
}
