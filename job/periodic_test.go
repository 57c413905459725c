package job_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

// electing returns a bench's store with nothing but jobs, notifications and the election of a leader: without settings and watchers, days
// pass in few steps.
func electing(b *bench) job.Store {
	return struct {
		job.Store
		job.Notifier
		job.Elector
	}{b.store, b.store, b.store}
}

func TestJ15TicksAcrossDaylightSavingTime(t *testing.T) {
	place, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	spring, autumn := time.Date(2027, 3, 14, 0, 0, 0, 0, place), time.Date(2027, 11, 7, 0, 0, 0, 0, place)
	for _, c := range []struct {
		midnight time.Time
		cron     string
		want     []string
	}{
		{spring, "30 2 * * *", []string{"03:00:00-04:00"}},
		{spring, "CRON_TZ=America/New_York 30 2 * * *", []string{"03:00:00-04:00"}},
		{spring, "0 * * * *", []string{"01:00:00-05:00", "03:00:00-04:00", "04:00:00-04:00"}},
		{autumn, "30 1 * * *", []string{"01:30:00-04:00"}},
		{autumn, "0 * * * *", []string{"01:00:00-04:00", "01:00:00-05:00", "02:00:00-05:00"}},
		{autumn, "0 1,2 * * *", []string{"01:00:00-04:00", "02:00:00-05:00"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(c.midnight))
			var ticks []string
			b := newBench(t)
			stop := b.start(electing(b), func(context.Context, job.Job[[]byte]) error {
				ticks = append(ticks, time.Now().In(place).Format("15:04:05Z07:00"))
				return nil
			}, job.WithPeriodic(job.Periodic{Name: "p", Cron: c.cron, Location: place, Request: job.Request{Type: "t"}}), job.WithPoll(time.Minute))
			time.Sleep(3*time.Hour + time.Minute)
			stop()
			if diff := cmp.Diff(c.want, ticks); diff != "" {
				t.Errorf("%s on %v:\n%s", c.cron, c.midnight, diff)
			}
		})
	}
}

// brief is a store whose unique keys hold for half an hour, where the worker asks for days. It keeps those of the jobs that it stored.
type brief struct {
	job.Store
	job.Notifier
	job.Elector
	mu   sync.Mutex
	keys []string
}

func (s *brief) Enqueue(ctx context.Context, list []job.Insert) ([]job.Receipt, error) {
	for i := range list {
		list[i].UniqueFor = 30 * time.Minute
	}
	receipts, err := s.Store.Enqueue(ctx, list)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range receipts {
		if !r.Existed {
			s.keys = append(s.keys, list[i].UniqueKey)
		}
	}
	return receipts, err
}

func TestJ15TakingOverTheLeadEnqueuesNoTickAgain(t *testing.T) {
	for spec, missed := range map[string]job.Missed{"*/10 * * * *": job.MissedSkip, "@every 10m": job.MissedAll} {
		synctest.Test(t, func(t *testing.T) {
			handler := func(context.Context, job.Job[[]byte]) error { return nil }
			periodic := job.WithPeriodic(job.Periodic{Name: "p", Cron: spec, Missed: missed, Request: job.Request{Type: "t"}})
			b := newBench(t)
			store := &brief{Store: b.store, Notifier: b.store, Elector: b.store}
			first := b.start(store, handler, periodic, job.WithPoll(time.Minute))
			time.Sleep(17 * time.Second)
			second := b.start(store, handler, periodic, job.WithPoll(time.Minute))
			time.Sleep(2 * time.Hour) // unique keys of the first ticks are gone
			first()
			time.Sleep(100 * time.Minute)
			second()
			want := 2*6 + 10
			if missed == job.MissedAll {
				want += 24 * 6 // of the day before
			}
			if n := len(store.keys); n != want || len(slices.Compact(slices.Sorted(slices.Values(store.keys)))) != want {
				t.Errorf("%s: %d ticks, want %d", spec, n, want)
			}
		})
	}
}

// full is a store that rejects new jobs until it has room.
type full struct {
	job.Store
	refused atomic.Int64
	room    atomic.Bool
}

func (f *full) Enqueue(ctx context.Context, list []job.Insert) ([]job.Receipt, error) {
	if f.room.Load() {
		return f.Store.Enqueue(ctx, list)
	}
	f.refused.Add(1)
	return nil, errors.New("disk full")
}

func TestJ15TicksOfAnOutageByPolicy(t *testing.T) {
	for missed, want := range map[job.Missed]int64{job.MissedSkip: 1, job.MissedOnce: 1, job.MissedAll: 18} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(5 * time.Minute)
			store := &full{Store: memory.Open().Jobs()}
			store.room.Store(true)
			b := &bench{t: t, store: memory.Open().Jobs()}
			var calls atomic.Int64
			stop := b.start(store, func(context.Context, job.Job[[]byte]) error { calls.Add(1); return nil },
				job.WithPeriodic(job.Periodic{Name: "p", Cron: "*/10 * * * *", Missed: missed, Request: job.Request{Type: "t"}}), job.WithPoll(20*time.Second))
			time.Sleep(time.Minute)
			store.room.Store(false)
			before := calls.Load()
			time.Sleep(3 * time.Hour)
			store.room.Store(true)
			time.Sleep(time.Minute)
			stop()
			if n := calls.Load() - before; n != want {
				t.Errorf("missed %q: %d runs after an outage, want %d", missed, n, want)
			}
		})
	}
}

func TestJ15ATickThatCannotBeEnqueuedIsNotAHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, store: memory.Open().Jobs()}
		store := &full{Store: b.store}
		handler, _ := failing(nil)
		stop := b.start(store, handler, job.WithPeriodic(job.Periodic{Name: "p", Cron: "* * * * *", Request: job.Request{Type: "t"}}))
		time.Sleep(90 * time.Second)
		stop()
		if n := store.refused.Load(); n < 2 || n > 30 {
			t.Errorf("%d attempts in 30 s", n)
		}
	})
}

func TestJ15AScheduleThatNeverFiresIsRejected(t *testing.T) {
	w := job.NewWorker(memory.Open().Jobs(), quiet, job.WithPeriodic(job.Periodic{Name: "p", Cron: "0 0 30 2 *", Request: job.Request{Type: "t"}}))
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "never") {
		t.Errorf("%v", err)
	}
}
