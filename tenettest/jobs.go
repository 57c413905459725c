package tenettest

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/job"
)

// Jobs is a worker on a store in memory, for tests of handlers. Make it, enqueue and run inside synctest.Test: then waits
// between attempts and delays of jobs pass in virtual time.
type Jobs struct {
	Client *job.Client
	Worker *job.Worker // register handlers before Run
	Store  *memory.Jobs
	t      testing.TB
	runs   bool
}

// JobResult is a job with the history of its attempts, oldest first.
type JobResult struct {
	*job.Record
	History []job.Attempt
}

// runLimit is how much virtual time Run gives the jobs. A worker that waits costs some 20 µs of real time per virtual second.
const runLimit = 7 * 24 * time.Hour

// NewJobs makes a store, a client and a worker, which logs to the test's output unless an option says otherwise. The worker
// serves the queue "default"; name others with job.WithQueues. A nil t panics.
func NewJobs(t testing.TB, options ...job.WorkerOption) *Jobs {
	argument.Need(t != nil, "tenettest: NewJobs: the test")
	t.Helper()
	store := memory.Open().Jobs()
	log := job.WithLogger(slog.New(slog.NewTextHandler(t.Output(), nil)))
	return &Jobs{
		Client: job.NewClient(store), Store: store, t: t,
		Worker: job.NewWorker(store, append([]job.WorkerOption{log}, options...)...),
	}
}

// Run works until no job is left that the worker takes: all are completed, dead or cancelled. It returns every job of the
// store, in the order of enqueueing, those that the worker does not take included. It may be called again after more was
// enqueued. The test fails if jobs are left after seven days of virtual time. The worker ends with the test.
func (j *Jobs) Run() []JobResult {
	j.t.Helper()
	if !j.runs {
		j.runs = true
		j.start()
	}
	synctest.Wait()
	for end := time.Now().Add(runLimit); j.waiting(); synctest.Wait() {
		if !time.Now().Before(end) {
			for _, r := range j.list(unfinished) {
				j.t.Errorf("tenettest: job %s of type %s is %s after %v of virtual time; last error: %q", r.ID, r.Type, r.State, runLimit, r.LastError)
			}
			j.t.FailNow()
		}
		time.Sleep(time.Second)
	}
	return j.results()
}

func (j *Jobs) start() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- j.Worker.Run(ctx) }()
	j.t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			j.t.Error(err)
		}
	})
}

// waiting reports whether an unfinished job is left that the worker takes.
func (j *Jobs) waiting() bool {
	workers, err := j.Store.Workers(context.Background())
	if err != nil {
		j.t.Fatal(err)
	}
	for _, r := range j.list(unfinished) {
		if r.State == job.Running || len(workers) > 0 && workers[0].Takes(job.Request{Queue: r.Queue, Type: r.Type}) {
			return true
		}
	}
	return false
}

// unfinished selects the jobs that have not ended. Run looks for them every virtual second, and does not copy the others.
var unfinished = job.Filter{States: slices.DeleteFunc(job.States(), job.State.Finished)}

func (j *Jobs) list(f job.Filter) (all []*job.Record) {
	page := func(after string, limit int) ([]*job.Record, error) {
		return j.Store.List(context.Background(), f, after, limit)
	}
	for r, err := range paging.All("", 1000, page, func(r *job.Record) string { return r.ID }) {
		if err != nil {
			j.t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func (j *Jobs) results() (results []JobResult) {
	for _, r := range j.list(job.Filter{}) {
		r, history, err := j.Store.Get(context.Background(), r.ID)
		if err != nil {
			j.t.Fatal(err)
		}
		results = append(results, JobResult{r, history})
	}
	return results
}
