package job_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/job"
)

// TestJ15MissedTicksAreRunAlthoughTheFirstLeaderCrashes starts a worker while the lead still belongs to one that crashed before it
// made up for the missed ticks.
func TestJ15MissedTicksAreRunAlthoughTheFirstLeaderCrashes(t *testing.T) {
	for _, missed := range []job.Missed{job.MissedOnce, job.MissedAll} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(30 * time.Minute)
			b := newBench(t)
			if leads, err := b.store.Lead(context.Background(), "crashed", 6*time.Second); !leads || err != nil {
				t.Fatal(leads, err)
			}
			stop := b.start(b.store, func(context.Context, job.Job[[]byte]) error { return nil },
				job.WithPeriodic(job.Periodic{Name: "p", Cron: "@hourly", Missed: missed, Request: job.Request{Type: "t"}}))
			time.Sleep(20 * time.Second)
			stop()
			want := map[job.Missed]int{job.MissedOnce: 1, job.MissedAll: 24}[missed]
			if list, _ := b.ticks(); len(list) != want {
				t.Errorf("%s: %d ticks were made up for, want %d", missed, len(list), want)
			}
		})
	}
}

// TestJ15AnotherLeadsOnceTheLeaderHasStopped: a worker that was restarted does not wait for the lead of its former process to expire.
func TestJ15AnotherLeadsOnceTheLeaderHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		stop := b.start(b.store, func(context.Context, job.Job[[]byte]) error { return nil })
		time.Sleep(20 * time.Second)
		if leads, err := b.store.Lead(t.Context(), "next", 6*time.Second); leads || err != nil {
			t.Fatal(leads, err)
		}
		stop()
		time.Sleep(time.Millisecond)
		if leads, err := b.store.Lead(t.Context(), "next", 6*time.Second); !leads || err != nil {
			t.Error(leads, err)
		}
	})
}

// TestJ22TheLatestMissedTickOfTheFormerDefinitionIsRun changes a definition while no worker runs.
func TestJ22TheLatestMissedTickOfTheFormerDefinitionIsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := job.Periodic{Name: "p", Cron: "*/10 * * * *", Missed: job.MissedOnce, Request: job.Request{Type: "t"}}
		b.set(job.PeriodicSetting(p))
		time.Sleep(65 * time.Minute)
		p.Cron = "0 3 * * *" // later in the day
		b.set(job.PeriodicSetting(p))
		time.Sleep(30 * time.Minute)
		stop := b.start(b.store, func(context.Context, job.Job[[]byte]) error { return nil })
		time.Sleep(10 * time.Second)
		stop()
		list, _ := b.ticks()
		if len(list) != 1 {
			t.Errorf("missed ticks that were made up for: %v, want the last one before the change", list)
		}
	})
}

// fast is a store whose clock is ahead of this process's.
type fast struct{ *memory.Jobs }

func (s fast) Settings(ctx context.Context, known int64) ([]job.Setting, int64, error) {
	list, version, err := s.Jobs.Settings(ctx, known)
	for i := range list {
		list[i].At = list[i].At.Add(time.Hour)
	}
	return list, version, err
}

// TestJ22APeriodicJobCanBeChangedAgainAlthoughTheClockOfTheStoreIsAhead waits for the former change as the local clock has it.
func TestJ22APeriodicJobCanBeChangedAgainAlthoughTheClockOfTheStoreIsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fast{memory.Open().Jobs()}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		begin := time.Now()
		for _, queue := range []string{"a", "b"} {
			if _, err := job.ChangeSetting(ctx, store, must(job.PeriodicSetting(often(queue, job.MissedSkip))), nil); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("the second change came after %v", took)
		}
	})
}

// TestJ23AClockThatIsPutBackDoesNotStopARate puts the clock back by an hour between two steps.
func TestJ23AClockThatIsPutBackDoesNotStopARate(t *testing.T) {
	now := time.Now()
	r := job.Redrive{State: job.RedriveRunning, RedrivePlan: job.RedrivePlan{Rate: 10}, RedriveCounts: job.RedriveCounts{Total: 100}}
	s := everything{}
	for range 10 {
		now = now.Add(100 * time.Millisecond)
		if _, err := r.Step(now, 0, s); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(-time.Hour)
	before := r.Released
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		if _, err := r.Step(now, 0, s); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.Released - before; n < 80 || n > 101 {
		t.Errorf("%d jobs released in 10 s at 10/s", n)
	}
}

// everything is a selection of which every job can be released.
type everything struct{}

func (everything) Settled(int, int) ([]job.RedriveEnded, int, error) { return nil, 0, nil }
func (everything) Release(_, n int) (int, error)                     { return n, nil }
func (everything) Undo(int, int) (int, int, error)                   { return 0, 0, errors.New("undo") }
func (everything) Discard(int, int) error                            { return errors.New("discard") }
