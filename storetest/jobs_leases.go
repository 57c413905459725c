package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// kinds lists the kinds of settlement.
func kinds() []job.Kind {
	return []job.Kind{job.KindComplete, job.KindRetry, job.KindDead, job.KindBury, job.KindRelease, job.KindSnooze, job.KindRefuse, job.KindCancel}
}

// leaseCases checks fencing, expiry and repetition.
func leaseCases() []jobsCase {
	return []jobsCase{
		{name: "J7/a job that does not run cannot be settled or extended", run: func(s *jobs) {
			id := s.add(job.Insert{})
			s.refuses(job.Ref{ID: id, Fence: 0}, job.ErrNotRunning)
			s.refuses(job.Ref{ID: id, Fence: 1}, job.ErrNotRunning)
		}},
		{name: "J7/a finished job cannot be settled by another token", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindComplete)
			s.refuses(job.Ref{ID: r.ID, Fence: 7}, job.ErrNotRunning)
		}},
		{name: "J7/a job that does not exist is not found", run: func(s *jobs) {
			s.must(s.settle(job.Ref{ID: newID(), Fence: 1}, job.KindComplete), job.ErrNotFound)
			s.must(s.extend(job.Ref{ID: newID(), Fence: 1}, long), job.ErrNotFound)
		}},
		{name: "J7/another token is fenced", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			s.refuses(job.Ref{ID: r.ID, Fence: r.Fence + 1}, job.ErrFenced)
			s.refuses(job.Ref{ID: r.ID, Fence: 0}, job.ErrFenced)
			s.must(s.settle(r.Ref(), job.KindComplete), nil)
		}},
		{name: "J26/a job that is read hands out nobody's lease", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			for _, read := range []*job.Record{s.record(r.ID), s.list(job.Filter{IDs: []string{r.ID}})[0]} {
				if read.ID != r.ID || read.State != job.Running || read.Fence != 0 {
					s.Errorf("read: %+v", read)
				}
				s.refuses(read.Ref(), job.ErrFenced)
			}
			s.must(s.settle(r.Ref(), job.KindComplete), nil)
		}},
		{name: "J7/an expired lease is refused to its own token", run: func(s *jobs) {
			r := s.start(job.Insert{}, s.short)
			s.lapse(s.short)
			s.refuses(r.Ref(), job.ErrLeaseExpired)
		}},
		{name: "J7/expiry is judged before the token", run: func(s *jobs) {
			r := s.start(job.Insert{}, s.short)
			s.lapse(s.short)
			s.refuses(job.Ref{ID: r.ID, Fence: r.Fence + 1}, job.ErrLeaseExpired)
		}},
		{name: "J7/a stale worker is fenced by the next", run: func(s *jobs) {
			stale := s.start(job.Insert{}, s.short)
			s.maintainAfter(s.short)
			s.refuses(stale.Ref(), job.ErrNotRunning)
			live := s.take(long)
			if live.ID != stale.ID || live.Fence <= stale.Fence {
				s.Fatalf("token %d after %d", live.Fence, stale.Fence)
			}
			s.refuses(stale.Ref(), job.ErrFenced)
			s.must(s.settle(live.Ref(), job.KindComplete), nil)
			s.refuses(stale.Ref(), job.ErrNotRunning)
		}},
		{name: "J7/a settled token may repeat itself", run: func(s *jobs) {
			for _, kind := range kinds() {
				r := s.attempt(job.Insert{}, kind, fails("x", 0))
				s.unchanged(r.ID, func() {
					s.must(s.settle(r.Ref(), kind, fails("x", 0)), nil)
					s.must(s.settle(r.Ref(), kind, fails("another text", s.short)), nil)
				})
				s.change(job.ActionCancel, job.Filter{IDs: []string{r.ID}}, 1)
			}
		}},
		{name: "J7/a settled token may repeat itself after the job was claimed again", run: func(s *jobs) {
			for _, kind := range []job.Kind{job.KindRetry, job.KindRelease, job.KindSnooze} {
				r := s.attempt(job.Insert{}, kind)
				again := s.take(long)
				s.unchanged(r.ID, func() { s.must(s.settle(r.Ref(), kind), nil) })
				s.must(s.settle(again.Ref(), job.KindComplete), nil)
				s.unchanged(r.ID, func() {
					s.must(s.settle(r.Ref(), kind), nil)
					s.must(s.settle(again.Ref(), job.KindComplete), nil)
				})
			}
		}},
		{name: "J7/refusals in a row may repeat themselves after the job was claimed again", run: func(s *jobs) {
			first := s.attempt(job.Insert{}, job.KindRefuse, refused(0))
			second := s.take(long)
			s.unchanged(first.ID, func() { s.must(s.settle(first.Ref(), job.KindRefuse, refused(0)), nil) })
			s.must(s.settle(second.Ref(), job.KindRefuse, refused(0)), nil)
			s.unchanged(first.ID, func() { s.must(s.settle(first.Ref(), job.KindRefuse, refused(0)), nil) })
			third := s.take(long)
			s.unchanged(first.ID, func() {
				for _, r := range []*job.Record{first, second} {
					s.must(s.settle(r.Ref(), job.KindRefuse, refused(0)), nil)
					s.must(s.settle(r.Ref(), job.KindRelease), job.ErrFenced)
				}
			})
			s.must(s.settle(third.Ref(), job.KindBury), nil)
			s.unchanged(first.ID, func() {
				for _, r := range []*job.Record{first, second} {
					s.must(s.settle(r.Ref(), job.KindRefuse, refused(0)), nil)
				}
				s.must(s.settle(third.Ref(), job.KindRefuse, refused(0)), job.ErrNotRunning)
			})
		}},
		{name: "J7/a completion may repeat itself after an operator started the job again", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			s.lapse(2 * time.Millisecond)
			s.must(s.settle(r.Ref(), job.KindComplete, func(x *job.Settlement) { x.Started = 2 * time.Millisecond }), nil)
			_, want := s.job(r.ID)
			if len(want) != 1 || !want[0].Started.Equal(r.ClaimedAt.Add(2*time.Millisecond)) || want[0].Outcome != job.AttemptCompleted {
				s.Fatalf("history %+v", want)
			}
			s.change(job.ActionRetry, job.Filter{IDs: []string{r.ID}}, 1)
			again := s.take(long)
			s.unchanged(r.ID, func() { s.must(s.settle(r.Ref(), job.KindComplete), nil) })
			_, got := s.job(r.ID)
			noDiff(s, "history", cmp.Diff(want, got))
			s.must(s.settle(again.Ref(), job.KindComplete), nil)
			if _, got := s.job(r.ID); len(got) != 2 || !cmp.Equal(got[:1], want) || got[1].Fence != again.Fence {
				s.Errorf("history %+v", got)
			}
		}},
		{name: "J7/completions in a group with others", run: func(s *jobs) {
			var list []job.Settlement
			for i := range 6 {
				r := s.start(job.Insert{UniqueKey: []string{"", "completions in a group"}[i/5]}, long)
				if i == 4 {
					s.must(s.settle(r.Ref(), job.KindRefuse, refused(0)), nil)
					r = s.take(long)
				}
				list = append(list, job.Settlement{Ref: r.Ref(), Kind: job.KindComplete, Reason: policy.ReasonSuccess})
			}
			list[1].Fence++
			list[2].ID = "none"
			list[3].Kind, list[3].Reason, list[3].Error = job.KindRetry, policy.ReasonError, "x"
			list = append(list, list[0])
			s.sameErrors(s.Settle(s.ctx, list), []error{nil, job.ErrFenced, job.ErrNotFound, nil, nil, nil, nil})
			for i, rows := range map[int]int{0: 1, 4: 2, 5: 1} { // the refusal is a row too
				r, history := s.job(list[i].ID)
				if r.State != job.Completed || r.Refusals != 0 || len(history) != rows || history[rows-1].Reason != policy.ReasonSuccess {
					s.Errorf("%d is %s, history %+v", i, r.State, history)
				}
			}
		}},
		{name: "J7/a settled token cannot settle otherwise", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindRetry)
			s.unchanged(r.ID, func() {
				s.must(s.settle(r.Ref(), job.KindComplete), job.ErrNotRunning)
				s.must(s.extend(r.Ref(), long), job.ErrNotRunning)
			})
			again := s.take(long)
			s.unchanged(r.ID, func() { s.must(s.settle(r.Ref(), job.KindComplete), job.ErrFenced) })
			s.must(s.settle(again.Ref(), job.KindComplete), nil)
		}},
		{name: "J7/extend sets the expiry to exactly now + d", run: func(s *jobs) {
			for _, d := range []time.Duration{2 * long, time.Minute, job.MaxLease, 1500 * time.Millisecond} {
				r := s.start(job.Insert{}, long)
				s.lapse(3 * time.Millisecond)
				before := s.clock()
				s.must(s.extend(r.Ref(), d), nil)
				after := s.clock()
				got := s.in(r.ID, job.Running).LeaseUntil.Add(-d)
				if got.Before(before) || got.After(after) {
					s.Errorf("extended by %v at %v to %v: outside %v to %v", d, got, got.Add(d), before, after)
				}
				s.must(s.settle(r.Ref(), job.KindComplete), nil)
			}
		}},
		{name: "J7/an extended lease lives on", run: func(s *jobs) {
			r := s.start(job.Insert{}, 2*s.short)
			s.must(s.extend(r.Ref(), long), nil)
			s.maintainAfter(2 * s.short)
			s.must(s.settle(r.Ref(), job.KindComplete), nil)
		}},
		{name: "J7/invalid leases are typed errors", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			s.add(job.Insert{})
			for _, d := range []time.Duration{0, -time.Second, time.Microsecond, job.MaxLease + 1} {
				var typed *job.DurationError
				s.unchanged(r.ID, func() {
					if err := s.extend(r.Ref(), d); !errors.As(err, &typed) {
						s.Errorf("Extend by %v: %v", d, err)
					}
				})
				list, err := s.Claim(s.ctx, job.Claim{Worker: "w", Queues: []job.Slots{{Queue: queue, Free: 1}}, Lease: d})
				if !errors.As(err, &typed) || len(list) != 0 {
					s.Errorf("Claim for %v: %d jobs, %v", d, len(list), err)
				}
			}
		}},
		{name: "J8/a claim with a name that cannot be stored everywhere is refused and names the field", run: func(s *jobs) {
			id := s.add(job.Insert{})
			for field, c := range map[string]job.Claim{
				"worker": {Worker: "w\x00", Queues: []job.Slots{{Queue: queue, Free: 1}}, Lease: long},
				"queue":  {Worker: "w", Queues: []job.Slots{{Queue: queue, Free: 1}, {Queue: "\xff", Free: 1}}, Lease: long},
				"type":   {Worker: "w", Queues: []job.Slots{{Queue: queue, Free: 1}}, Types: []string{"t", "\x00"}, Lease: long},
			} {
				if _, err := s.Claim(s.ctx, c); err == nil || !strings.HasPrefix(err.Error(), "job: claim: "+field) {
					s.Errorf("%s: %v", field, err)
				}
			}
			s.claimed(id)
		}},
		{name: "J7/a negative delay is a typed error", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			var typed *job.DurationError
			s.unchanged(r.ID, func() {
				if err := s.settle(r.Ref(), job.KindRetry, fails("x", -time.Second)); !errors.As(err, &typed) {
					s.Errorf("retry after -1s: %v", err)
				}
			})
		}},
		{name: "J7/a settlement of an unknown kind is refused", run: func(s *jobs) {
			r := s.start(job.Insert{}, long)
			s.unchanged(r.ID, func() { s.must(s.settle(r.Ref(), "finish"), job.ErrConflict) })
		}},
		{name: "J7/the errors are in the order of the leases", run: func(s *jobs) {
			one, two := s.start(job.Insert{}, long), s.start(job.Insert{}, long)
			waiting := s.add(job.Insert{})
			refs := []job.Ref{one.Ref(), {ID: waiting, Fence: 1}, two.Ref(), {ID: two.ID, Fence: 9}, {ID: newID(), Fence: 1}}
			want := []error{nil, job.ErrNotRunning, nil, job.ErrFenced, job.ErrNotFound}
			s.sameErrors(s.Extend(s.ctx, refs, long), want)
			var list []job.Settlement
			for _, ref := range []int{1, 0, 4, 3, 2} {
				list = append(list, job.Settlement{Ref: refs[ref], Kind: job.KindComplete})
			}
			s.sameErrors(s.Settle(s.ctx, list), []error{job.ErrNotRunning, nil, job.ErrNotFound, job.ErrFenced, nil})
			s.in(one.ID, job.Completed)
			s.in(two.ID, job.Completed)
		}},
		{name: "J7/of two settlements of a lease in one call the first is written", run: func(s *jobs) {
			for _, kind := range []job.Kind{job.KindRetry, job.KindDead, job.KindSnooze} {
				for _, completed := range []bool{false, true} {
					r := s.start(job.Insert{}, long)
					list := []job.Settlement{
						{Ref: r.Ref(), Kind: kind, Delay: long, Reason: policy.ReasonError}, {Ref: r.Ref(), Kind: job.KindComplete, Reason: policy.ReasonSuccess},
					}
					if completed {
						slices.Reverse(list)
					}
					s.sameErrors(s.Settle(s.ctx, list), []error{nil, job.ErrNotRunning})
					if got := s.record(r.ID).State == job.Completed; got != completed {
						s.Errorf("%s and complete: completed is %v, want %v", kind, got, completed)
					}
				}
			}
		}},
		{name: "J7/nothing to settle or extend is no error", run: func(s *jobs) {
			s.sameErrors(s.Extend(s.ctx, nil, long), nil)
			s.sameErrors(s.Settle(s.ctx, nil), nil)
		}},
		{name: "J7/settlements of all kinds in one group", run: func(s *jobs) {
			var list []job.Settlement
			for i, kind := range kinds() {
				r := s.start(job.Insert{}, long)
				list = append(list, job.Settlement{Ref: r.Ref(), Kind: kind, Delay: s.short, Error: fmt.Sprint("e", i), Output: []byte{byte(i)}})
			}
			s.sameErrors(s.Settle(s.ctx, list), nil)
			want := map[job.Kind]job.State{
				job.KindComplete: job.Completed, job.KindRetry: job.Scheduled, job.KindDead: job.Dead, job.KindBury: job.Dead, job.KindRelease: job.Ready,
				job.KindSnooze: job.Scheduled, job.KindRefuse: job.Scheduled, job.KindCancel: job.Cancelled,
			}
			for _, x := range list {
				r, history := s.job(x.ID)
				if r.State != want[x.Kind] || !rowOf(x.Kind, history) {
					s.Errorf("%s: %s, history %+v", x.Kind, r.State, history)
				}
			}
		}},
		{name: "J6/a lease is never taken back before it expires", run: func(s *jobs) {
			r := s.start(job.Insert{}, s.short)
			s.almostElapse(s.short)
			same(s, "jobs reclaimed early", s.maintain().Reclaimed, 0)
			s.claimed()
			s.must(s.settle(r.Ref(), job.KindComplete), nil)
		}},
		{name: "J6/a lost lease uses up an attempt", run: func(s *jobs) {
			r := s.start(job.Insert{}, s.short)
			s.lapse(s.short)
			same(s, "jobs reclaimed", s.maintain().Reclaimed, 1)
			got, history := s.job(r.ID)
			if got.State != job.Ready || got.Failures != 1 || got.Reason != policy.ReasonLeaseExpired || got.LastError == "" || got.FailedAt.Before(r.LeaseUntil) {
				s.Fatalf("after the lease: %+v", got)
			}
			if len(history) != 1 || history[0].Outcome != job.AttemptLost || history[0].Reason != policy.ReasonLeaseExpired || history[0].Fence != r.Fence ||
				history[0].Worker != "w" || history[0].Number != 1 || !history[0].Started.Equal(r.ClaimedAt) || !got.StartedAt.Equal(r.ClaimedAt) || history[0].Error != got.LastError {
				s.Fatalf("history: %+v", history)
			}
		}},
		{name: "J6/a job whose own maximum was lost is dead", run: func(s *jobs) {
			id := s.add(job.Insert{MaxAttempts: 2})
			for range 2 {
				s.take(s.short)
				s.maintainAfter(s.short)
			}
			r, history := s.job(id)
			if r.State != job.Dead || r.Failures != 2 || r.Reason != policy.ReasonLeaseExpired || r.FinishedAt.IsZero() || len(history) != 2 {
				s.Fatalf("%+v with %+v", r, history)
			}
		}},
		{name: "J6/without a maximum of its own a job goes on after lost leases", run: func(s *jobs) {
			id := s.add(job.Insert{})
			for range 4 {
				s.take(s.short)
				s.maintainAfter(s.short)
			}
			same(s, "failures", s.in(id, job.Ready).Failures, 4)
		}},
		{name: "J6/refusals before a lost lease keep their row", run: func(s *jobs) {
			id := s.add(job.Insert{})
			for range 2 {
				s.must(s.settle(s.take(long).Ref(), job.KindRefuse, refused(0)), nil)
			}
			s.take(s.short)
			s.maintainAfter(s.short)
			r, history := s.job(id)
			if r.Refusals != 0 || r.Failures != 1 || len(history) != 2 || history[0].Count != 2 || history[1].Outcome != job.AttemptLost {
				s.Fatalf("%+v with %+v", r, history)
			}
		}},
	}
}

// rowOf reports whether a settlement left its row: one, or for a job that was buried none.
func rowOf(kind job.Kind, history []job.Attempt) bool {
	if kind == job.KindBury {
		return len(history) == 0
	}
	return len(history) == 1 && history[0].Outcome == kind.Outcome()
}

// refuses checks that a lease may do nothing, for the given reason, and that nothing is written.
func (s *jobs) refuses(ref job.Ref, want error) {
	s.Helper()
	s.unchanged(ref.ID, func() {
		s.Helper()
		for _, kind := range kinds() {
			if err := s.settle(ref, kind); !errors.Is(err, want) {
				s.Errorf("%s by token %d: %v, want %v", kind, ref.Fence, err, want)
			}
		}
		if err := s.extend(ref, long); !errors.Is(err, want) {
			s.Errorf("extend by token %d: %v, want %v", ref.Fence, err, want)
		}
	})
}

// unchanged checks that f leaves a job and its history as they are.
func (s *jobs) unchanged(id string, f func()) {
	s.Helper()
	before, historyBefore := s.job(id)
	f()
	after, historyAfter := s.job(id)
	noDiff(s, "the job was changed", cmp.Diff(before, after))
	noDiff(s, "the history was changed", cmp.Diff(historyBefore, historyAfter))
}

// sameErrors checks errors by position; nil stands for a list without errors.
func (s *jobs) sameErrors(got, want []error) {
	s.Helper()
	if want == nil {
		if slices.ContainsFunc(got, func(err error) bool { return err != nil }) {
			s.Fatalf("errors %v, want none", got)
		}
		return
	}
	if len(got) != len(want) {
		s.Fatalf("errors %v, want %v", got, want)
	}
	for i := range want {
		if !errors.Is(got[i], want[i]) {
			s.Errorf("error %d is %v, want %v", i, got[i], want[i])
		}
	}
}
