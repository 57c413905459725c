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

// TestJ8AnOutageIsNoIdleness: a worker that is to end when nothing is left goes on while the store cannot say so.
func TestJ8AnOutageIsNoIdleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &awayStore{outages: 3}
		untilIdle(t.Context(), slog.New(slog.DiscardHandler), s, func() map[string]int { return map[string]int{"default": 1} })
		if s.outages != 0 || s.asked != 5 {
			t.Errorf("asked %d times, %d outages left", s.asked, s.outages)
		}
	})
}

// awayStore is away at first, then has one job running, then none.
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
