package storetest

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// stateCases checks the states and their transitions.
func stateCases() []jobsCase {
	return []jobsCase{
		{name: "J2/a job without run_at is ready at once", run: func(s *jobs) {
			r := s.in(s.add(job.Insert{}), job.Ready)
			if r.Failures != 0 || !r.RunAt.Equal(r.CreatedAt) || !r.StartedAt.IsZero() {
				s.Fatalf("failures %d, run_at %v, created %v, started %v", r.Failures, r.RunAt, r.CreatedAt, r.StartedAt)
			}
		}},
		{name: "J2/a job whose run_at is past is ready", run: func(s *jobs) {
			s.in(s.add(job.Insert{RunAt: s.clock().Add(-time.Hour)}), job.Ready)
			s.take(long)
		}},
		{name: "J2/a scheduled job is ready when due and not before", run: func(s *jobs) {
			id := s.add(job.Insert{RunAt: s.clock().Add(s.short)})
			s.in(id, job.Scheduled)
			s.almostElapse(s.short)
			s.maintain()
			s.in(id, job.Scheduled)
			s.claimed()
			s.maintainAfter(s.short)
			s.claimed(id)
		}},
		{name: "J2/a claimed job runs under a lease", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			if r.State != job.Running || r.Worker != "w" || r.Fence != 1 || !r.LeaseUntil.Equal(r.ClaimedAt.Add(long)) {
				s.Fatalf("claimed: %+v", r)
			}
			got := s.in(r.ID, job.Running)
			if got.Worker != "w" || !got.LeaseUntil.Equal(r.LeaseUntil) || !got.ClaimedAt.Equal(r.ClaimedAt) {
				s.Fatalf("stored: %+v", got)
			}
		}},
		{name: "J2/complete ends a job with its output", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindComplete, func(x *job.Settlement) { x.Output = []byte("out") })
			got := s.in(r.ID, job.Completed)
			if string(got.Output) != "out" || got.Failures != 0 || got.FinishedAt.Before(r.ClaimedAt) {
				s.Fatalf("completed: %+v", got)
			}
		}},
		{name: "J4/retry counts the attempt and schedules the next", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindRetry, fails("boom", s.short))
			got := s.in(r.ID, job.Scheduled)
			if got.Failures != 1 || got.LastError != "boom" || got.Reason != policy.ReasonError || got.FailedAt.IsZero() ||
				!got.RunAt.Equal(got.FailedAt.Add(s.short)) || !got.LeaseUntil.IsZero() {
				s.Fatalf("after a failure: %+v", got)
			}
			s.almostElapse(s.short)
			s.maintain()
			s.in(r.ID, job.Scheduled)
			s.maintainAfter(s.short)
			again := s.take(long)
			if again.ID != r.ID || again.Fence != 2 || again.Failures != 1 {
				s.Fatalf("claimed again: %+v", again)
			}
		}},
		{name: "J4/retry without delay is ready at once", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindRetry)
			s.in(r.ID, job.Ready)
			s.take(long)
		}},
		{name: "J4/a very long delay is cut at the limit", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindRetry, fails("boom", 1<<62))
			got := s.in(r.ID, job.Scheduled)
			if !got.RunAt.Equal(got.FailedAt.Add(job.MaxDelay)) {
				s.Fatalf("run_at %v, failed at %v", got.RunAt, got.FailedAt)
			}
			_, history := s.job(r.ID)
			same(s, "the delay in the history", history[0].Delay, job.MaxDelay)
		}},
		{name: "J4/dead counts the attempt and keeps the error", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindDead, fails("fatal", 0))
			got := s.in(r.ID, job.Dead)
			if got.Failures != 1 || got.LastError != "fatal" || got.Reason != policy.ReasonError || got.FinishedAt.IsZero() {
				s.Fatalf("dead: %+v", got)
			}
			s.claimed()
		}},
		{name: "J6/bury ends a job without another attempt", run: func(s *jobs) {
			id := s.add(job.Insert{})
			s.must(s.settle(s.take(long).Ref(), job.KindRetry, fails("real", 0)), nil)
			r := s.take(long)
			s.must(s.settle(r.Ref(), job.KindBury, func(x *job.Settlement) { x.Reason = policy.ReasonAttemptsExhausted }), nil)
			got, history := s.job(id)
			if got.State != job.Dead || got.Failures != 1 || got.LastError != "real" || got.Reason != policy.ReasonAttemptsExhausted || got.FinishedAt.IsZero() || len(history) != 1 {
				s.Fatalf("buried: %+v with %+v", got, history)
			}
		}},
		{name: "J6/release uses up no attempt and is ready at once", run: func(s *jobs) {
			r := s.attempt(job.Insert{MaxAttempts: 1}, job.KindRelease)
			got := s.in(r.ID, job.Ready)
			if got.Failures != 0 || got.LastError != "" {
				s.Fatalf("released: %+v", got)
			}
			same(s, "the token", s.take(long).Fence, 2)
		}},
		{name: "J5/snooze reschedules without counting", run: func(s *jobs) {
			r := s.attempt(job.Insert{MaxAttempts: 1}, job.KindSnooze, func(x *job.Settlement) { x.Delay = s.short })
			same(s, "failures", s.in(r.ID, job.Scheduled).Failures, 0)
			s.maintainAfter(s.short)
			s.take(long)
		}},
		{name: "J16/a refusal reschedules without counting", run: func(s *jobs) {
			r := s.attempt(job.Insert{MaxAttempts: 1}, job.KindRefuse, refused(s.short))
			got := s.in(r.ID, job.Scheduled)
			if got.Failures != 0 || got.Refusals != 1 || got.RefusedReason != policy.ReasonBudgetDenied || got.RefusedAt.IsZero() {
				s.Fatalf("refused: %+v", got)
			}
			s.maintainAfter(s.short)
			same(s, "refusals that the next attempt sees", s.take(long).Refusals, 1)
		}},
		{name: "J2/cancel settles a running job as cancelled", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindCancel)
			if got := s.in(r.ID, job.Cancelled); got.Failures != 0 || got.FinishedAt.IsZero() {
				s.Fatalf("cancelled: %+v", got)
			}
		}},
	}
}

func fails(text string, delay time.Duration) func(*job.Settlement) {
	return func(x *job.Settlement) { x.Error, x.Reason, x.Delay = text, policy.ReasonError, delay }
}

func refused(delay time.Duration) func(*job.Settlement) {
	return func(x *job.Settlement) { x.Reason, x.Delay = policy.ReasonBudgetDenied, delay }
}

// startCases checks when a job's overall_timeout starts: with the first attempt that ran.
func startCases() []jobsCase {
	return []jobsCase{
		{name: "J17/a claim or a refusal starts nothing", run: func(s *jobs) {
			id := s.add(job.Insert{})
			for _, x := range []job.Settlement{{Kind: job.KindRefuse}, {Kind: job.KindRelease, NotRun: true}, {Kind: job.KindRefuse, NotRun: true}} {
				r := s.take(long)
				if !r.StartedAt.IsZero() || !s.record(id).StartedAt.IsZero() {
					s.Fatalf("claimed: started at %v", r.StartedAt)
				}
				s.must(s.settle(r.Ref(), x.Kind, func(y *job.Settlement) { y.NotRun = x.NotRun }), nil)
				if got := s.record(id); !got.StartedAt.IsZero() {
					s.Fatalf("after %s: started at %v", x.Kind, got.StartedAt)
				}
			}
		}},
		{name: "J17/the first attempt that ran starts a job and no later one", run: func(s *jobs) {
			for _, kind := range []job.Kind{job.KindRetry, job.KindSnooze, job.KindRelease} {
				id := s.add(job.Insert{})
				first := s.take(long)
				s.lapse(2 * time.Millisecond)
				s.must(s.settle(first.Ref(), kind, func(x *job.Settlement) { x.Started = time.Millisecond }), nil)
				want := first.ClaimedAt.Add(time.Millisecond)
				for _, again := range []job.Kind{job.KindRefuse, job.KindRetry, job.KindComplete} {
					s.lapse(time.Millisecond)
					r := s.take(long)
					if r.ID != id || !r.StartedAt.Equal(want) {
						s.Fatalf("after %s: claimed %+v, want a start at %v", kind, r, want)
					}
					s.must(s.settle(r.Ref(), again), nil)
				}
				if got := s.in(id, job.Completed); !got.StartedAt.Equal(want) {
					s.Fatalf("completed: started at %v, want %v", got.StartedAt, want)
				}
			}
		}},
		{name: "J17/a completion and a death start a job that had not started", run: func(s *jobs) {
			for _, kind := range []job.Kind{job.KindComplete, job.KindDead} {
				r := s.attempt(job.Insert{}, kind)
				if got := s.record(r.ID); !got.StartedAt.Equal(r.ClaimedAt) {
					s.Errorf("%s: started at %v, claimed at %v", kind, got.StartedAt, r.ClaimedAt)
				}
			}
		}},
	}
}

// historyCases checks the rows of the attempt history.
func historyCases() []jobsCase {
	return []jobsCase{
		{name: "J4/each settlement adds its row", run: func(s *jobs) {
			id := s.add(job.Insert{})
			want := []job.Attempt{
				{Number: 1, Kind: job.KindRetry, Outcome: job.AttemptFailed, Error: "one"},
				{Number: 2, Kind: job.KindRelease, Outcome: job.AttemptInterrupted},
				{Number: 2, Kind: job.KindSnooze, Outcome: job.AttemptSnoozed},
				{Number: 2, Kind: job.KindRetry, Outcome: job.AttemptFailed, Error: "two"},
				{Number: 3, Kind: job.KindComplete, Outcome: job.AttemptCompleted},
			}
			for _, row := range want {
				r := s.take(long)
				s.must(s.settle(r.Ref(), row.Kind, func(x *job.Settlement) {
					x.Error, x.Stack, x.Reason = row.Error, "stack of "+row.Error, policy.ReasonError
				}), nil)
			}
			r, history := s.job(id)
			if len(history) != len(want) {
				s.Fatalf("%d rows, want %d: %+v", len(history), len(want), history)
			}
			for i, row := range want {
				got := history[i]
				if got.Number != row.Number || got.Kind != row.Kind || got.Outcome != row.Outcome || got.Error != row.Error || got.Fence != int64(i+1) ||
					got.Worker != "w" || got.Count != 1 || got.Reason != policy.ReasonError || got.Stack != "stack of "+row.Error ||
					got.Started.IsZero() || got.Finished.Before(got.Started) {
					s.Errorf("row %d: %+v, want %+v", i, got, row)
				}
			}
			if r.Failures != 2 || r.LastError != "two" {
				s.Errorf("attempts %d, last error %q", r.Failures, r.LastError)
			}
		}},
		{name: "J4/the row keeps the delay and when the attempt started", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			s.lapse(3 * time.Millisecond)
			s.must(s.settle(r.Ref(), job.KindRetry, func(x *job.Settlement) { x.Delay, x.Started = 1500*time.Millisecond, 3*time.Millisecond }), nil)
			_, history := s.job(r.ID)
			if len(history) != 1 || history[0].Delay != 1500*time.Millisecond || !history[0].Started.Equal(r.ClaimedAt.Add(3*time.Millisecond)) {
				s.Fatalf("history: %+v", history)
			}
		}},
		{name: "J4/an attempt started between its claim and its end", run: func(s *jobs) {
			for _, kind := range []job.Kind{job.KindDead, job.KindComplete} {
				r := s.attempt(job.Insert{}, kind, func(x *job.Settlement) { x.Started = -time.Hour })
				if _, history := s.job(r.ID); !history[0].Started.Equal(r.ClaimedAt) {
					s.Errorf("%s of an attempt that started before its claim: %+v", kind, history)
				}
				r = s.start(job.Insert{}, long)
				s.must(s.settle(r.Ref(), kind, func(x *job.Settlement) { x.Started = time.Hour }), nil)
				if _, history := s.job(r.ID); !history[0].Started.Equal(history[0].Finished) {
					s.Errorf("%s of an attempt that started after its end: %+v", kind, history)
				}
			}
		}},
		{name: "J4/a dead job shows all its attempts and the final error", run: func(s *jobs) {
			id := s.add(job.Insert{})
			for _, text := range []string{"first", "second", "third"} {
				kind := job.KindRetry
				if text == "third" {
					kind = job.KindDead
				}
				s.must(s.settle(s.take(long).Ref(), kind, fails(text, 0)), nil)
			}
			r, history := s.job(id)
			if r.State != job.Dead || r.Failures != 3 || r.LastError != "third" || len(history) != 3 || history[2].Error != "third" {
				s.Fatalf("%+v with %+v", r, history)
			}
		}},
		{name: "J16/refusals in a row are one counted row", run: func(s *jobs) {
			id := s.add(job.Insert{})
			for range 3 {
				s.must(s.settle(s.take(long).Ref(), job.KindRefuse, refused(0)), nil)
			}
			r, history := s.job(id)
			if r.Refusals != 3 || len(history) != 1 || history[0].Count != 3 || history[0].Outcome != job.AttemptRefused || history[0].Reason != policy.ReasonBudgetDenied {
				s.Fatalf("after three refusals: %d on the record, history %+v", r.Refusals, history)
			}
			s.must(s.settle(s.take(long).Ref(), job.KindRetry, fails("boom", 0)), nil)
			s.must(s.settle(s.take(long).Ref(), job.KindRefuse, refused(0)), nil)
			r, history = s.job(id)
			if r.Refusals != 1 || r.Failures != 1 {
				s.Fatalf("refusals %d, attempts %d", r.Refusals, r.Failures)
			}
			counts := lists.Map(history, func(a job.Attempt) int { return a.Count })
			if !slices.Equal(counts, []int{3, 1, 1}) || history[0].Number != 1 || history[1].Number != 1 || history[2].Number != 2 {
				s.Fatalf("history: %+v", history)
			}
		}},
		{name: "J5/error text and stack with NUL or invalid UTF-8 are stored clean", run: func(s *jobs) {
			for _, text := range []string{"a\x00b", "bad \xff\xfe end", strings.Repeat("long ", 10_000), "ünïcode ☂ 日本", "quote ' \" \\ %s $1 ?"} {
				r := s.attempt(job.Insert{}, job.KindDead, func(x *job.Settlement) { x.Error, x.Stack = text, text })
				got, history := s.job(r.ID)
				want := job.CleanText(text)
				if strings.Contains(got.LastError, "\x00") || !utf8.ValidString(got.LastError) || len(got.LastError) > 16<<10 || got.LastError != want || len(history) != 1 || history[0].Error != want || history[0].Stack != want {
					s.Errorf("%.20q was stored as %.40q", text, got.LastError)
				}
			}
		}},
	}
}
