package job_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

func TestJ8AJobOfAnUnknownTypeIsNotClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, calls := failing(nil)
		b := work(t, handler)
		id := b.enqueue(job.Request{Type: "other"})
		before, _ := b.get(id)
		b.enqueue(job.Request{})
		time.Sleep(time.Minute)
		r, history := b.get(id)
		if r.State != job.Ready || !r.ClaimedAt.IsZero() || !r.RunAt.Equal(before.RunAt) || len(history) != 0 || calls.Load() != 1 {
			t.Errorf("%s, claimed at %v, %d calls, %v", r.State, r.ClaimedAt, calls.Load(), story(history))
		}
	})
}

func TestJ8ACapableWorkerStartsAtOnceAmongTenThatAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		handler, _ := failing(nil)
		for range 10 {
			defer b.start(b.store, handler, job.WithPoll(time.Hour))()
		}
		var started []time.Time
		w := job.NewWorker(b.store, quiet, job.WithPoll(time.Hour))
		w.HandleRaw("other", func(_ context.Context, j job.Job[[]byte]) error {
			started = append(started, time.Now())
			if j.Attempt == 1 {
				return errDown
			}
			return nil
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		enqueued := time.Now()
		id := b.enqueue(job.Request{Type: "other"})
		time.Sleep(10 * time.Second)
		r, history := b.get(id)
		if r.State != job.Completed || len(started) != 2 || started[0].Sub(enqueued) > time.Second || len(history) != 2 ||
			started[1].Sub(history[0].Finished.Add(history[0].Delay)) > time.Second {
			t.Errorf("%s, enqueued at %v, started at %v, %v", r.State, enqueued, started, story(history))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// counted is a store that counts claims.
type counted struct {
	job.Store
	claims []job.Claim
}

func (s *counted) Claim(ctx context.Context, c job.Claim) ([]*job.Record, error) {
	s.claims = append(s.claims, c)
	return s.Store.Claim(ctx, c)
}

func TestJ8WorkerWithoutHandlersClaimsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: memory.Open().Jobs()}
		receipt, err := job.NewClient(store).Enqueue(context.Background(), job.Request{Type: "t"})
		if err != nil {
			t.Fatal(err)
		}
		w := job.NewWorker(store, quiet)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.Run(ctx); err != nil || len(store.claims) != 0 {
			t.Errorf("%d claims, %v; job %s", len(store.claims), err, receipt.ID)
		}
	})
}
