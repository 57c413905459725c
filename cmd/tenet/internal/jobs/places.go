package jobs

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
)

// searchedBuckets is how many of the fullest buckets of a limit are searched for that of a job. Servers tell fewer.
const searchedBuckets = 1000

// placesOf returns, in parentheses, how many jobs hold and want the places that a job waits for; "" if it waits for none, or if its
// bucket is not among the fullest.
func placesOf(ctx context.Context, s open.JobStore, r *job.Record) (string, error) {
	if r.State != job.Waiting || r.WaitsFor == job.WaitsForNeeds {
		return "", nil
	}
	list, err := s.Limits(ctx)
	if err != nil {
		return "", err
	}
	states := map[job.LimitName]job.LimitState{}
	var names []job.LimitName
	for _, l := range list {
		names, states[l.LimitName] = append(names, l.LimitName), l
	}
	name, key, ok := job.WaitedLimit(names, r.WaitsFor)
	if !ok {
		return "", nil
	}
	use, err := s.LimitUse(ctx, name, searchedBuckets)
	if err != nil {
		return "", err
	}
	for _, b := range use.Fullest {
		if b.Key != key {
			continue
		}
		held := cli.Count(b.Held, "place")
		if l := states[name].InForce(); l != nil && l.Concurrency > 0 {
			held = fmt.Sprintf("%d of %d places", b.Held, l.Concurrency)
		}
		return fmt.Sprintf(" (%s held, %s waiting)", held, cli.Count(b.Waiting, "job")), nil
	}
	return "", nil
}
