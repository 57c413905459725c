package job_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

func TestJ22ARunningWorkerFollowsChangedQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := job.NewWorker(b.store, quiet, job.WithQueues(map[string]int{"a": 1, "gone": 1}))
		finish := make(chan struct{})
		w.HandleRaw("t", func(context.Context, job.Job[[]byte]) error { <-finish; return nil })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		running := func() string {
			time.Sleep(time.Second)
			stats, err := b.store.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint("a ", stats["a"].Running, ", gone ", stats["gone"].Running, ", new ", stats["new"].Running)
		}
		for range 4 {
			b.enqueue(job.Request{Queue: "a"})
			b.enqueue(job.Request{Queue: "gone"})
			b.enqueue(job.Request{Queue: "new"})
		}
		for _, step := range []struct {
			change func()
			want   string
		}{
			{func() {}, "a 1, gone 1, new 0"},
			{func() { w.SetQueues(map[string]int{"a": 3, "new": 2}) }, "a 3, gone 1, new 2"},
			{func() { w.SetQueues(nil) }, "a 3, gone 1, new 2"},
			{func() {
				for range 6 {
					finish <- struct{}{}
				}
			}, "a 0, gone 0, new 0"},
			{func() { w.SetQueues(map[string]int{"gone": 1}) }, "a 0, gone 1, new 0"},
		} {
			step.change()
			if got := running(); step.want != "" && got != step.want {
				t.Errorf("running: %s, want %s", got, step.want)
			}
		}
		close(finish)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestJ8ABadNameInSetQueuesLeavesTheOtherQueuesServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var log bytes.Buffer
		w := job.NewWorker(b.store, job.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		handler, _ := failing(nil)
		w.HandleRaw("t", handler)
		defer b.run(w)()
		time.Sleep(time.Second)
		given := map[string]int{"default": 1, "bad\x00": 1, "\xff": 1}
		w.SetQueues(given)
		id := b.enqueue(job.Request{})
		time.Sleep(10 * time.Second)
		if r, _ := b.get(id); r.State != job.Completed || len(w.Queues()) != 1 || len(given) != 3 {
			t.Errorf("%s, serves %v", r.State, w.Queues())
		}
		if strings.Count(log.String(), "job: SetQueues") != 2 || !strings.Contains(log.String(), "contains a NUL character") {
			t.Error(&log)
		}
	})
}

// TestAWorkerWithoutHandlersSaysSo: it would otherwise wait for jobs in silence and claim none.
func TestAWorkerWithoutHandlersSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var log strings.Builder
		s := memory.Open().Jobs()
		defer s.Close()
		w := job.NewWorker(s, job.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err := w.Run(ctx); err != nil || !strings.Contains(log.String(), "the worker has no handlers") {
			t.Errorf("%v: %s", err, log.String())
		}
	})
}
