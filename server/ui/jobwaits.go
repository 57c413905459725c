package ui

import (
	"slices"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// shownHolders is how many of the jobs that hold the places of a limit the page of a job shows.
const shownHolders = 5

// jobWaits says what a waiting job waits for: a place in the bucket of a limit.
type jobWaits struct {
	Limit   limitRow
	Bucket  bucketRow
	Holders []api.Job // some of the jobs that hold its places
	Counted bool      // Held and Waiting of the bucket are known
}

// readJobWaits reads the limit that a job waits for; nil if it waits for none.
func readJobWaits(r *request, j *api.Job) (*jobWaits, error) {
	if j.State != job.Waiting || j.WaitsFor == job.WaitsForNeeds || j.WaitsFor == "" {
		return nil, nil
	}
	list, err := readLimits(r)
	if err != nil {
		return nil, err
	}
	w, found := limitNamed(list, j.WaitsFor)
	if !found {
		return nil, nil // it has changed, and the job is about to get another place
	}
	for _, b := range w.Limit.Use.Fullest {
		if b.Key == w.Bucket.Key {
			w.Bucket, w.Counted = newBucketRow(&w.Limit, b), true
		}
	}
	if w.Bucket.HeldJobs == "" {
		return w, nil
	}
	var held api.JobFound
	err = r.ask("/v1/jobs/find", api.JobFind{Filter: api.JobFilter{Filter: w.Bucket.HeldJobs}, Limit: shownHolders, Within: firstLook}, &held)
	w.Holders = held.Jobs
	return w, err
}

// limitNamed finds the limit that a waits_for names, and the key in it.
func limitNamed(list []api.Limit, waitsFor string) (w *jobWaits, found bool) {
	names := lists.Map(list, func(l api.Limit) job.LimitName { return l.LimitName() })
	name, key, found := job.WaitedLimit(names, waitsFor)
	if !found {
		return nil, false
	}
	row := newLimitRow(list[slices.Index(names, name)])
	return &jobWaits{Limit: row, Bucket: newBucketRow(&row, job.BucketUse{Key: key})}, true
}
