package memory

import (
	"context"
	"slices"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
)

// Search implements job.Searcher. It looks at one job after the other.
func (s *Jobs) Search(ctx context.Context, q job.Search) (job.Found, error) {
	return q.Over(ctx, job.Candidates{Newest: s.newest, List: s.List})
}

// Indexes implements job.Searcher: there are none.
func (s *Jobs) Indexes(context.Context) ([]string, error) { return nil, nil }

// newest returns the highest n IDs below one, in descending order.
func (s *Jobs) newest(ctx context.Context, _ *filter.Term, below string, n int) ([]string, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	all := s.jobs.order.from("")
	end := len(all)
	if below != "" {
		end, _ = slices.BinarySearch(all, below)
	}
	ids := slices.Clone(all[max(end-n, 0):end])
	slices.Reverse(ids)
	return ids, nil
}
