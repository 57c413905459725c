package workers

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/job"
)

// TestJ8AnOutageDoesNotMeanIdle: a worker that runs until idle continues while the store cannot report its jobs.
func TestJ8AnOutageDoesNotMeanIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &awayStore{outages: 3}
		untilIdle(t.Context(), slog.New(slog.DiscardHandler), s, func() map[string]int { return map[string]int{"default": 1} })
		if s.outages != 0 || s.asked != 5 {
			t.Errorf("%d requests, %d outages left", s.asked, s.outages)
		}
	})
}

// TestJ19WaitingJobsAreNotReadWhileOthersRun: a flow can have 100,000 of them, and a worker that runs until idle asks ten times a second.
func TestJ19WaitingJobsAreNotReadWhileOthersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &flowStore{running: 100}
		untilIdle(t.Context(), slog.New(slog.DiscardHandler), s, func() map[string]int { return map[string]int{"flow": 1, "mail": 1} })
		if s.running != 0 || s.lists != 1 || s.most > 100 {
			t.Errorf("%d jobs run, and waiting ones were read %d times, up to %d at a time", s.running, s.lists, s.most)
		}
	})
}

// TestUntilIdleSaysWhichJobsItCannotRun: with types without a handler and paused queues it would otherwise wait in silence.
func TestUntilIdleSaysWhichJobsItCannotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s := memory.Open().Jobs()
		defer s.Close()
		client := job.NewClient(s)
		for _, r := range []job.Request{{Type: "mail:welcome"}, {Type: "http"}, {Type: "report"}, {Type: "http", Queue: "held"}} {
			if _, err := client.Enqueue(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.SetQueue(ctx, job.QueueState{Queue: "held", Paused: true}); err != nil {
			t.Fatal(err)
		}
		if err := s.Announce(ctx, job.WorkerInfo{Name: "w", Queues: []string{"default", "held"}, Types: []string{"http"}}, time.Hour); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		untilIdle(ctx, slog.New(slog.NewTextHandler(&log, nil)), s, func() map[string]int { return map[string]int{"default": 1, "held": 1} })
		for _, want := range []string{`queue=default types="mail:welcome, report"`, "tenet queues resume\" queue=held"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log lacks %s, or repeats it:\n%s", want, log.String())
			}
		}
	})
}

// TestUntilIdleRepeatsNoNote: other jobs run now and then while it waits.
func TestUntilIdleRepeatsNoNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		s := memory.Open().Jobs()
		defer s.Close()
		client := job.NewClient(s)
		for queue, r := range map[string]job.Request{"later": {RunAt: time.Now().Add(time.Hour)}, "held": {}, "mail": {}} {
			r.Type, r.Queue = "report", queue
			if _, err := client.Enqueue(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.SetQueue(ctx, job.QueueState{Queue: "held", Paused: true}); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		n := 0
		busy := &busyStore{Jobs: s, stats: func(stats map[string]job.QueueStats) {
			n++
			switch q := stats["mail"]; {
			case n%20 == 0:
				q.Running = 1
				stats["mail"] = q
			case n > 100: // only the scheduled job is left
				delete(stats, "held")
				delete(stats, "mail")
			}
		}}
		untilIdle(ctx, slog.New(slog.NewTextHandler(&log, nil)), busy, func() map[string]int { return map[string]int{"later": 1, "held": 1, "mail": 1} })
		for _, want := range []string{"waits for scheduled jobs", "queue=held", "types=report"} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log lacks %s, or repeats it:\n%s", want, log.String())
			}
		}
	})
}

// busyStore changes the counts of a store.
type busyStore struct {
	*memory.Jobs
	stats func(map[string]job.QueueStats)
}

func (s *busyStore) Stats(ctx context.Context) (map[string]job.QueueStats, error) {
	stats, err := s.Jobs.Stats(ctx)
	if err == nil {
		s.stats(stats)
	}
	return stats, err
}

// TestUntilIdleSaysThatItWaitsForScheduledJobs: but not of retries, which are scheduled for a few seconds ahead.
func TestUntilIdleSaysThatItWaitsForScheduledJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s := memory.Open().Jobs()
		defer s.Close()
		client := job.NewClient(s)
		for queue, d := range map[string]time.Duration{"nightly": time.Hour, "mail": 30 * time.Second} {
			if _, err := client.Enqueue(ctx, job.Request{Type: "http", Queue: queue, RunAt: time.Now().Add(d)}); err != nil {
				t.Fatal(err)
			}
		}
		var log strings.Builder
		untilIdle(ctx, slog.New(slog.NewTextHandler(&log, nil)), s, func() map[string]int { return map[string]int{"nightly": 1, "mail": 1} })
		text := log.String()
		if strings.Count(text, "\n") != 1 || !strings.Contains(text, "waits for scheduled jobs") || !strings.Contains(text, "queue=nightly") {
			t.Errorf("logged:\n%s", text)
		}
	})
}

// TestUntilIdleLooksAgainForScheduledJobs: a retry that waits beside them can run between two looks.
func TestUntilIdleLooksAgainForScheduledJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s := memory.Open().Jobs()
		defer s.Close()
		client := job.NewClient(s)
		for kind, d := range map[string]time.Duration{"report": time.Hour, "retry": 30 * time.Second} {
			if _, err := client.Enqueue(ctx, job.Request{Type: kind, RunAt: time.Now().Add(d)}); err != nil {
				t.Fatal(err)
			}
		}
		time.AfterFunc(3*time.Second, func() {
			if _, err := s.Change(ctx, job.ActionCancel, job.Filter{Type: "retry"}, 1); err != nil {
				t.Error(err)
			}
		})
		var log strings.Builder
		untilIdle(ctx, slog.New(slog.NewTextHandler(&log, nil)), s, func() map[string]int { return map[string]int{"default": 1} })
		if strings.Count(log.String(), "waits for scheduled jobs") != 1 {
			t.Errorf("logged:\n%s", log.String())
		}
	})
}

// flowStore has a job that waits for its needs, and running jobs in another queue, one of which ends at each call of Stats.
type flowStore struct {
	open.JobStore
	running, lists, most int
}

func (s *flowStore) Stats(context.Context) (map[string]job.QueueStats, error) {
	s.running--
	return map[string]job.QueueStats{"flow": {Waiting: 1}, "mail": {Running: s.running}}, nil
}

func (s *flowStore) List(_ context.Context, _ job.Filter, _ string, limit int) ([]*job.Record, error) {
	s.lists, s.most = s.lists+1, max(s.most, limit)
	return []*job.Record{{State: job.Waiting, WaitsFor: job.WaitsForNeeds}}, nil
}

// awayStore fails at first, then reports one running job, then none.
type awayStore struct {
	open.JobStore
	outages, asked int
}

func (s *awayStore) Stats(context.Context) (map[string]job.QueueStats, error) {
	s.asked++
	if s.outages > 0 {
		s.outages--
		return nil, errors.New("away")
	}
	return map[string]job.QueueStats{"default": {Running: 5 - s.asked}}, nil
}
