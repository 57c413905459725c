package storetest

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tenetdev/tenet/job"
)

// workerCases runs workers on the store.
func workerCases() []jobsCase {
	return []jobsCase{
		{name: "J8/a capable worker starts a job beside ten workers that are not", real: true, run: func(s *jobs) {
			s.capable(s)
		}},
		{name: "J8/a capable worker of another handle starts a job beside ten workers that are not", real: true, run: func(s *jobs) {
			s.second(s.capable)
		}},
	}
}

// startLimit is how long a job may wait for an idle worker. The contract says 1 s; a loaded machine gets more.
const startLimit = 5 * time.Second

// capable checks that a worker on a handle gets each job that only it can run, and at once.
func (s *jobs) capable(on *jobs) {
	s.Helper()
	poll := job.WithPoll(time.Hour) // so that only the store's notification starts the job
	if _, ok := s.Store.(job.Notifier); !ok {
		poll = job.WithPoll(job.DefaultPoll)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	var workers sync.WaitGroup
	defer func() { cancel(); workers.Wait() }()
	started := make(chan job.Job[[]byte])
	run := func(store job.Store, jobType, name string, handler job.RawHandler) {
		w := job.NewWorker(store, job.WithName(name), job.WithQueues(map[string]int{queue: 10}), poll, job.WithLogger(slog.New(slog.DiscardHandler)))
		w.HandleRaw(jobType, handler)
		workers.Go(func() { s.report("Run", w.Run(ctx)) })
	}
	for i := range 10 {
		run(s.Store, "foreign", string(rune('0'+i)), func(context.Context, job.Job[[]byte]) error { return nil })
	}
	run(on.Store, "t", "capable", func(ctx context.Context, j job.Job[[]byte]) error {
		select {
		case started <- j:
		case <-ctx.Done():
		}
		return nil
	})
	for range 5 {
		id := s.add(job.Insert{})
		select {
		case j := <-started:
			if r := s.record(id); j.ID != id || r.Worker != "capable" || j.Lease().Ref() != (job.Ref{ID: id, Fence: 1}) {
				s.Errorf("job %s, last claimed by %q; the handler got %s under %+v", id, r.Worker, j.ID, j.Lease().Ref())
			}
		case <-time.After(startLimit):
			r := s.record(id)
			s.Fatalf("not started after %v: %s, last claimed by %q", startLimit, r.State, r.Worker)
		}
	}
}
