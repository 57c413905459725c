package server

import (
	"context"
	"slices"
	"time"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// countTime bounds how long jobs are counted where no kept counts answer, and searched unless the request says how long.
const countTime = 2 * time.Second

func (s *Server) countJobs(ctx context.Context, in *bodyOf[api.JobCounting]) (*answer[api.JobCount], error) {
	f, err := filterFor(callerOf(ctx), in.Body.Filter)
	if err != nil {
		return nil, err
	}
	if isKept(&f) {
		stats, err := s.options.Jobs.Stats(ctx)
		return answers(api.JobCount{Count: keptCount(&f, stats), Exact: true}, err)
	}
	searcher, err := s.searcher()
	if err != nil {
		return nil, err
	}
	var out api.JobCount
	end := time.Now().Add(countTime)
	for below := ""; ; {
		found, err := searcher.Search(ctx, job.Search{Filter: f, Below: below, Limit: pagePart, Within: max(time.Until(end), time.Millisecond)})
		if err != nil {
			return nil, err
		}
		out.Count += len(found.Jobs)
		if below = found.Next; below == "" || !time.Now().Before(end) {
			out.Exact = below == ""
			return answers(out, nil)
		}
	}
}

// isKept reports whether a filter selects by queue and state only, which stores keep counts of.
func isKept(f *job.Filter) bool {
	return len(f.IDs) == 0 && f.Type == "" && f.ErrorContains == "" && f.CreatedBefore.IsZero() && f.CreatedAfter.IsZero() &&
		!slices.ContainsFunc(f.Terms, func(t filter.Term) bool { return t.Field != job.FieldQueue })
}

func keptCount(f *job.Filter, stats map[string]job.QueueStats) (n int) {
	for queue, q := range stats {
		for _, state := range job.States() {
			if f.Matches(&job.Record{Queue: queue, State: state}) {
				n += *q.Of(state)
			}
		}
	}
	return n
}
