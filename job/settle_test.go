package job_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

func TestJ8SettleRetriesTransientErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 1500 // more than one group
		db := memory.Open()
		store := &faulty{Store: db.Jobs()}
		requests := make([]job.Request, jobs)
		for i := range requests {
			requests[i].Type = "t"
		}
		if _, err := job.NewClient(store).EnqueueMany(t.Context(), requests); err != nil {
			t.Fatal(err)
		}
		claimed, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: job.DefaultQueue, Free: jobs}}, Lease: time.Hour})
		if err != nil || len(claimed) != jobs {
			t.Fatalf("%d claimed, %v", len(claimed), err)
		}
		list := make([]job.Settlement, jobs)
		for i, r := range claimed {
			list[i] = job.Settlement{Ref: r.Ref(), Kind: job.KindComplete}
		}
		list[7].Fence++ // permanently rejected

		store.down.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs := job.Settle(ctx, store, list[:3])
		for i := range 3 {
			if !errors.Is(errs[i], errUnreachable) || !errors.Is(errs[i], context.DeadlineExceeded) || job.IsFinal(errs[i]) {
				t.Errorf("settlement %d after its deadline: %v", i, errs[i])
			}
		}
		time.AfterFunc(10*time.Second, func() { store.down.Store(false) })
		start, faults := time.Now(), store.faults.Load()
		errs = job.Settle(t.Context(), store, list)
		if passed := time.Since(start); passed < 10*time.Second || passed > 20*time.Second || store.faults.Load() < faults+3 {
			t.Errorf("done after %v and %d faults", passed, store.faults.Load()-faults)
		}
		for i, err := range errs {
			if want := i == 7; errors.Is(err, job.ErrFenced) != want || job.IsFinal(err) != want {
				t.Errorf("settlement %d: %v", i, err)
			}
		}
		if stats, err := db.Jobs().Stats(t.Context()); err != nil || stats[job.DefaultQueue].Completed != jobs-1 {
			t.Errorf("%+v, %v", stats, err)
		}
		if errs := job.Settle(t.Context(), store, append(list[:7:7], list[8:]...)); errs != nil {
			t.Errorf("written settlements: %v", errors.Join(errs...))
		}
	})
}

// narrow is a store that takes only so many bytes of outputs in a call, as those that send them in one message.
type narrow struct {
	job.Store
	room int
}

func (n narrow) Settle(ctx context.Context, list []job.Settlement) []error {
	bytes := 0
	for _, s := range list {
		bytes += len(s.Output)
	}
	if bytes > n.room {
		return slices.Repeat([]error{fmt.Errorf("message of %d bytes is too large", bytes)}, len(list))
	}
	return n.Store.Settle(ctx, list)
}

func TestJ8LargeOutputsAreSettledInGroupsOfABoundedSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs, size = 100, 1 << 20
		var ready sync.WaitGroup
		ready.Add(jobs)
		b := newBench(t)
		output := make([]byte, size)
		stop := b.start(narrow{b.store, 64 << 20}, func(_ context.Context, j job.Job[[]byte]) error {
			ready.Done()
			ready.Wait()
			j.SetOutput(output)
			return nil
		}, job.WithQueues(map[string]int{"default": jobs}))
		defer stop()
		for range jobs {
			b.enqueue(job.Request{})
		}
		time.Sleep(time.Minute)
		if stats, err := b.store.Stats(t.Context()); err != nil || stats[job.DefaultQueue].Completed != jobs {
			t.Errorf("%+v, %v", stats, err)
		}
	})
}
