package job_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
)

// eventLines formats events.
func eventLines(list []job.Event) (lines []string) {
	for _, e := range list {
		lines = append(lines, fmt.Sprintf("%s %s>%s %s %d lost %d", e.Type, e.From, e.To, e.Reason, e.Attempts, e.Lost))
	}
	return lines
}

func TestJ24AProgramReadsTheTransitionsOfItsWorkersJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := job.NewWorker(b.store, quiet, job.WithRetryPolicy(steady(2)), job.WithName("w1"))
		w.HandleRaw("t", func(context.Context, job.Job[[]byte]) error { return errDown })
		w.HandleRaw("lost", func(ctx context.Context, _ job.Job[[]byte]) error { return job.Cancel("enough") })
		ctx, cancel := context.WithCancel(t.Context())
		var got []job.Event
		done := make(chan struct{})
		events := w.Events(ctx, 100)
		go func() {
			defer close(done)
			for e := range events {
				got = append(got, e)
			}
		}()
		id := b.enqueue(job.Request{Meta: map[string]string{"tenant": "acme"}})
		stop := b.run(w)
		time.Sleep(time.Minute)
		b.enqueue(job.Request{Type: "lost"})
		time.Sleep(time.Minute)
		stop()
		cancel()
		<-done
		if diff := cmp.Diff([]string{
			"t ready>running  0 lost 0", "t running>scheduled error 1 lost 0", "t ready>running  1 lost 0", "t running>dead attempts_exhausted 2 lost 0",
			"lost ready>running  0 lost 0", "lost running>cancelled canceled 1 lost 0",
		}, eventLines(got)); diff != "" {
			t.Error(diff)
		}
		first := got[1]
		if first.ID != id || first.Worker != "w1" || first.Error != "down" || first.Meta["tenant"] != "acme" || first.Queue != job.DefaultQueue || first.Time.IsZero() {
			t.Errorf("%+v", first)
		}
	})
}

func TestJ24ASlowReaderLosesEventsAndIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		w := job.NewWorker(b.store, quiet)
		w.HandleRaw("t", func(context.Context, job.Job[[]byte]) error { return nil })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		slow, quick := w.Events(ctx, 3), w.Events(ctx, 1000)
		stop := b.run(w)
		for range 5 { // 10 events
			b.enqueue(job.Request{})
			time.Sleep(time.Second)
		}
		var got []job.Event
		for e := range slow {
			if got = append(got, e); len(got) == 4 {
				b.enqueue(job.Request{})
				time.Sleep(time.Second)
			}
			if len(got) == 6 {
				break
			}
		}
		if diff := cmp.Diff([]string{
			"t ready>running  0 lost 0", "t running>completed success 1 lost 0", "t ready>running  0 lost 0", " >  0 lost 7",
			"t ready>running  0 lost 0", "t running>completed success 1 lost 0",
		}, eventLines(got)); diff != "" {
			t.Error(diff)
		}
		seen := 0
		for e := range quick {
			if e.Lost != 0 {
				t.Errorf("%+v", e)
			}
			if seen++; seen == 12 {
				break
			}
		}
		stop()
	})
}

// away is a store whose events cannot be reached while it is down.
type away struct {
	job.Store
	job.Relay
	mu   sync.Mutex
	down bool
}

func (a *away) set(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
}

func (a *away) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return errDown
	}
	return nil
}

func (a *away) Publish(ctx context.Context, list []job.Event) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.Relay.Publish(ctx, list)
}

func (a *away) Watch(ctx context.Context, after int64, limit int) ([]job.Event, int64, error) {
	if err := a.err(); err != nil {
		return nil, 0, err
	}
	return a.Relay.Watch(ctx, after, limit)
}

func TestJ24AWatchOfAStoreGoesOnAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		store := &away{Store: b.store, Relay: b.store}
		ctx, cancel := context.WithCancel(t.Context())
		var got []job.Event
		var outages []string
		done := make(chan struct{})
		o := job.WatchOptions{After: -1, Failing: func(err error) { outages = append(outages, fmt.Sprint(err)) }}
		go func() {
			defer close(done)
			err := job.Watch(ctx, store, o, func(e job.Event) error {
				got = append(got, e)
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		time.Sleep(time.Second)
		handler := func(context.Context, job.Job[[]byte]) error { return nil }
		var stops []func()
		for range 2 { // every worker's transitions
			stops = append(stops, b.start(store, handler, job.WithQueues(map[string]int{fmt.Sprint("q", len(stops)): 1})))
		}
		work := func() {
			b.enqueue(job.Request{Queue: "q0"})
			b.enqueue(job.Request{Queue: "q1"})
		}
		work()
		time.Sleep(5 * time.Second)
		store.set(true)
		work()
		time.Sleep(20 * time.Second)
		store.set(false)
		time.Sleep(20 * time.Second)
		work()
		time.Sleep(5 * time.Second) // this store does not notify: workers poll every second
		for _, stop := range stops {
			stop()
		}
		time.Sleep(time.Second)
		cancel()
		<-done
		counts := map[string]int{}
		for _, e := range got {
			counts[fmt.Sprintf("%s %s lost %d", e.Queue, e.To, e.Lost)]++
		}
		want := map[string]int{"q0 running lost 0": 3, "q0 completed lost 0": 3, "q1 running lost 0": 3, "q1 completed lost 0": 3}
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"down", "<nil>"}, outages); diff != "" {
			t.Error(diff)
		}
	})
}

// hungWatch is a store that does not answer the second look at its events.
type hungWatch struct {
	job.Relay
	looks int
}

func (h *hungWatch) Watch(ctx context.Context, after int64, limit int) ([]job.Event, int64, error) {
	if h.looks++; h.looks == 2 {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	return h.Relay.Watch(ctx, after, limit)
}

func TestJ24AWatchGoesOnAfterTheStoreHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := work(t, func(context.Context, job.Job[[]byte]) error { return nil })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		time.AfterFunc(30*time.Second, func() { b.enqueue(job.Request{}) })
		var got []job.State
		_ = job.Watch(ctx, &hungWatch{Relay: b.store}, job.WatchOptions{After: -1}, func(e job.Event) error {
			got = append(got, e.To)
			return nil
		})
		if diff := cmp.Diff([]job.State{job.Running, job.Completed}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestJ24WorkersPublishOnlyWhileSomebodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := work(t, func(context.Context, job.Job[[]byte]) error { return nil })
		last := func() int64 {
			_, last, err := b.store.Watch(t.Context(), -1, 1)
			if err != nil {
				t.Fatal(err)
			}
			return last
		}
		time.Sleep(time.Second)
		b.enqueue(job.Request{})
		time.Sleep(time.Second)
		if n := last(); n != 0 { // from here on watched for a minute
			t.Errorf("%d events without a watcher", n)
		}
		time.Sleep(time.Second)
		b.enqueue(job.Request{})
		time.Sleep(2 * time.Minute)
		b.enqueue(job.Request{})
		time.Sleep(time.Second)
		if n := last(); n != 2 {
			t.Errorf("%d events, want those of the second job", n)
		}
		b.stop()
	})
}

func TestJ24AFilterSelectsEventsButNotTheirLosses(t *testing.T) {
	synctest.Test(t, selectEvents)
}

func selectEvents(t *testing.T) {
	store := newBench(t).store
	list := []job.Event{
		{ID: "1", Queue: "mail", To: job.Dead, Error: "timeout"}, {ID: "2", Queue: "other", To: job.Dead, Lost: 4}, {ID: "3", Queue: "mail", To: job.Completed},
		{Lost: 2}, {ID: "4", Queue: "mail", To: job.Dead, Meta: map[string]string{"tenant": "acme"}},
	}
	if err := store.Publish(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	got := func(text string) (ids []string) {
		f, err := job.ParseFilter(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(100*time.Millisecond, cancel)
		_ = job.Watch(ctx, store, job.WatchOptions{Filter: f}, func(e job.Event) error {
			ids = append(ids, fmt.Sprintf("%s/%d", e.ID, e.Lost))
			return nil
		})
		return ids
	}
	for text, want := range map[string][]string{
		"queue:mail state:dead": {"1/0", "/4", "/2", "4/0"}, "error:time": {"1/0", "/4", "/2"}, "meta.tenant:acme": {"/4", "/2", "4/0"}, "id:3": {"/4", "3/0", "/2"},
	} {
		if diff := cmp.Diff(want, got(text)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	for _, text := range []string{"payload.a:1", "key:k", "cause:c", "flow:f", "before:2h"} {
		f, err := job.ParseFilter(text, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := job.Watch(t.Context(), store, job.WatchOptions{Filter: f}, func(job.Event) error { return nil }); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	bad := job.Filter{Terms: filter.Terms{{Field: "nonsense"}}}
	if err := job.CheckWatch(bad); err == nil {
		t.Error("an unknown field is accepted")
	}
}
