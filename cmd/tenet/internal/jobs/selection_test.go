package jobs

import (
	"context"
	"errors"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
)

// askedOnce is a store that lists a running and a completed job, then fails.
type askedOnce struct {
	open.JobStore
	asked bool
}

var errAway = errors.New("away")

func (s *askedOnce) List(context.Context, job.Filter, string, int) ([]*job.Record, error) {
	if s.asked {
		return nil, errAway
	}
	s.asked = true
	return []*job.Record{{ID: "a", State: job.Running}, {ID: "b", State: job.Completed}}, nil
}

func TestJ25AnOutageLeavesKnownOutcomesOfCancellations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := outcomes(t.Context(), &askedOnce{}, []string{"a", "b", "c"}, true)
		if want := map[string]int{"pending": 1, "completed": 1, "cancelled": 1}; !errors.Is(err, errAway) || !maps.Equal(got, want) {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	})
}
