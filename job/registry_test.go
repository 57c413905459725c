package job_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

func TestJ8WorkersAnnounceTheirQueuesAndTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Jobs()
		workers := func(want ...job.WorkerInfo) {
			t.Helper()
			synctest.Wait()
			got, err := store.Workers(context.Background())
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v, workers (-want +got):\n%s", err, diff)
			}
		}
		handler := func(context.Context, job.Job[[]byte]) error { return nil }
		w := job.NewWorker(store, quiet, job.WithName("w"), job.WithQueues(map[string]int{"b": 1, "a": 2}))
		w.HandleRaw("u", handler)
		w.HandleRaw("t", handler)
		without := job.NewWorker(store, quiet)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 2)
		workers()
		go func() { done <- w.Run(ctx) }()
		go func() { done <- without.Run(ctx) }()
		info := job.WorkerInfo{Name: "w", Queues: []string{"a", "b"}, Types: []string{"t", "u"}}
		workers(info)
		for range 10 {
			time.Sleep(9 * time.Second)
			workers(info)
		}
		w.SetQueues(map[string]int{"c": 1})
		time.Sleep(3 * time.Second)
		info.Queues = []string{"c"}
		workers(info)
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		workers()
	})
}

// TestJ8CrashedWorkersAreListedFor30s checks that the entry of a worker that did not withdraw it expires.
func TestJ8CrashedWorkersAreListedFor30s(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.Open().Jobs()
		if err := job.NewAnnouncer(store).Announce(context.Background(), job.WorkerInfo{Name: "w", Queues: []string{"q"}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{1, 0} {
			time.Sleep(30*time.Second - time.Duration(want)*time.Microsecond)
			if list, err := store.Workers(context.Background()); err != nil || len(list) != want {
				t.Errorf("%v, %v, want %d", list, err, want)
			}
		}
	})
}

func TestJ8WorkerTakesItsTypesFromItsQueues(t *testing.T) {
	w := job.WorkerInfo{Queues: []string{"q"}, Types: []string{"t"}}
	all := job.WorkerInfo{Queues: []string{"q"}}
	request := func(queue, jobType string) job.Request { return job.Request{Queue: queue, Type: jobType} }
	if !w.Takes(request("q", "t")) || w.Takes(request("q", "u")) || w.Takes(request("r", "t")) || w.Takes(request("", "t")) ||
		!all.Takes(request("q", "u")) || all.Takes(request("r", "u")) {
		t.Error("Takes")
	}
}
