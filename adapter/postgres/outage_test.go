package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/internal/testpg"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// outage runs load on a server that is stopped and restarted.
type outage struct {
	store     *postgres.Jobs
	enqueued  atomic.Int64
	completed atomic.Int64
	faults    atomic.Int64
	ended     chan struct{} // closed when all jobs are enqueued
}

// fault counts a failed operation and waits before the next try.
func (o *outage) fault() {
	o.faults.Add(1)
	<-time.After(10 * time.Millisecond)
}

// produce stores n jobs one by one. If the confirmation is lost, it stores the job again; a conflict means that it exists.
func (o *outage) produce(n int) {
	for range n {
		in := insert()
		for {
			_, err := o.store.Enqueue(context.Background(), []job.Insert{in})
			if err == nil || errors.Is(err, job.ErrConflict) {
				o.enqueued.Add(1)
				break
			}
			o.fault()
		}
	}
}

// work claims and completes until all jobs are done.
func (o *outage) work(worker string) {
	ctx := context.Background()
	for {
		select {
		case <-o.ended:
			if o.completed.Load() >= o.enqueued.Load() {
				return
			}
		default:
		}
		if _, err := o.store.Maintain(ctx, job.Maintenance{Limit: 1000}); err != nil {
			o.fault()
		}
		list, err := o.store.Claim(ctx, job.Claim{Worker: worker, Queues: []job.Slots{{Queue: "q", Free: 20}}, Lease: time.Second})
		if err != nil {
			o.fault()
			continue
		}
		if len(list) == 0 {
			<-time.After(5 * time.Millisecond)
			continue
		}
		o.settle(list)
	}
}

// settle completes jobs and retries failures. An expired lease belongs to the next worker.
func (o *outage) settle(list []*job.Record) {
	pending := make([]job.Settlement, len(list))
	for i, r := range list {
		pending[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindComplete}
	}
	for len(pending) > 0 {
		errs := o.store.Settle(context.Background(), pending)
		var again []job.Settlement
		for i, s := range pending {
			switch {
			case errs == nil || errs[i] == nil:
				o.completed.Add(1)
			case errors.Is(errs[i], job.ErrLeaseExpired), errors.Is(errs[i], job.ErrNotRunning), errors.Is(errs[i], job.ErrFenced):
			default:
				again = append(again, s)
			}
		}
		if pending = again; len(pending) > 0 {
			o.fault()
		}
	}
}

// TestJ8AServerThatStopsUnderLoadLosesNothing: workers and producers only repeat failed operations; connections,
// notifications and leases recover by themselves.
func TestJ8AServerThatStopsUnderLoadLosesNothing(t *testing.T) { stopUnderLoad(t, 0) }

// TestJ19AServerThatStopsUnderLoadKeepsLimits is the same with a limit, which no look at the store finds exceeded.
func TestJ19AServerThatStopsUnderLoadKeepsLimits(t *testing.T) { stopUnderLoad(t, 12) }

// stopUnderLoad stops and restarts a server under load. A limit of 0 is none.
func stopUnderLoad(t *testing.T, limit int) {
	t.Helper()
	server, err := testpg.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db := openAt(t, server.URL(), "outage")
	if _, err := db.Migrate(ctx, postgres.Up, false); err != nil {
		t.Fatal(err)
	}
	o := &outage{store: db.Jobs(), ended: make(chan struct{})}
	if limit > 0 {
		l := policy.JobLimit{Name: "x", Concurrency: limit}
		if err := o.store.SetLimit(ctx, job.LimitSetting{LimitName: job.LimitName{Queue: "q", Name: "x"}, Limit: &l}); err != nil {
			t.Fatal(err)
		}
	}
	signals, err := o.store.Notify(ctx)
	if err != nil {
		t.Fatal(err)
	}

	var producers, workers sync.WaitGroup
	for range 4 {
		producers.Go(func() { o.produce(400) })
	}
	for i := range 3 {
		workers.Go(func() { o.work(fmt.Sprint("w", i)) })
	}
	looks, full := 0, 0
	if limit > 0 {
		workers.Go(func() {
			for {
				select {
				case <-o.ended:
					return
				case <-time.After(10 * time.Millisecond):
				}
				stats, err := o.store.Stats(ctx)
				if err != nil {
					continue
				}
				looks++
				if n := stats["q"].Running; n > limit {
					t.Errorf("J19: %d jobs run, the limit is %d", n, limit)
				} else if n+stats["q"].Ready == limit {
					full++
				}
			}
		})
	}
	for _, progress := range []int64{200, 600} {
		for o.completed.Load() < progress {
			<-time.After(time.Millisecond)
		}
		before := o.faults.Load()
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		for o.faults.Load() == before {
			<-time.After(time.Millisecond)
		}
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
	}
	producers.Wait()
	close(o.ended)
	workers.Wait()

	if limit > 0 && full == 0 {
		t.Errorf("J19: the limit was not reached in %d looks: nothing was tested", looks)
	}
	stats, err := o.store.Stats(ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := stats["q"]
	got.Activity.Attempts, got.Activity.Retries = got.Activity.Attempts-got.Activity.Retries, 0 // a lease may be lost while the server restarts
	if want := (job.QueueStats{Completed: 1600, Activity: job.Activity{Enqueued: 1600, Completed: 1600, Attempts: 1600}}); got != want {
		t.Errorf("after %d faults: %+v, want %+v", o.faults.Load(), got, want)
	}
	// The listener is back when it receives a new announcement; until then announcements may be lost.
	for heard := false; !heard; {
		for len(signals) > 0 {
			<-signals
		}
		if _, err := o.store.Enqueue(ctx, inserts(1)); err != nil {
			t.Fatal(err)
		}
		select {
		case _, heard = <-signals:
		case <-time.After(100 * time.Millisecond):
		}
	}
}
