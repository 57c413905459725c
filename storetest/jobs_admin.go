package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
)

// inEveryState stores one job in each state and returns them by state. The running one is leased for long.
func (s *jobs) inEveryState() map[job.State]string {
	s.Helper()
	by := map[job.State]string{}
	for state, kind := range map[job.State]job.Kind{job.Completed: job.KindComplete, job.Dead: job.KindDead, job.Cancelled: job.KindCancel} {
		r := s.attempt(job.Insert{}, kind, fails("why: "+string(state), 0))
		by[state] = r.ID
	}
	by[job.Running] = s.start(job.Insert{}, long).ID
	by[job.Ready] = s.add(job.Insert{})
	by[job.Waiting] = s.add(job.Insert{WaitsFor: job.WaitsForNeeds})
	by[job.Scheduled] = s.add(job.Insert{RunAt: s.clock().Add(long)})
	return by
}

// missing checks that an error names what the store does not have.
func (s *jobs) missing(err error, want job.NotFoundError) {
	s.Helper()
	s.must(err, job.ErrNotFound)
	if got, ok := errors.AsType[*job.NotFoundError](err); !ok || *got != want {
		s.Fatalf("%v does not say that there is no %s %s", err, want.What, want.ID)
	}
}

// adminCases checks inspection.
func adminCases() []jobsCase {
	return []jobsCase{
		{name: "J13/a job that does not exist is not found", run: func(s *jobs) {
			for _, id := range []string{newID(), "none"} {
				_, _, err := s.Get(s.ctx, id)
				s.missing(err, job.NotFoundError{What: "job", ID: id})
			}
		}},
		{name: "J13/pages show every job once while others are inserted", run: func(s *jobs) {
			// Half of the IDs are used now, the others while pages are read, before and behind the cursor.
			pool := make([]string, 200)
			for i := range pool {
				pool[i] = newID()
			}
			var want []string
			for i := 0; i < len(pool); i += 2 {
				want = append(want, s.add(job.Insert{ID: pool[i]}))
			}
			seen := map[string]int{}
			after, last := "", ""
			for i := 1; ; {
				page, err := s.List(s.ctx, job.Filter{}, after, 7)
				s.must(err, nil)
				if len(page) > 7 {
					s.Fatalf("a page of %d", len(page))
				}
				if len(page) == 0 {
					break
				}
				for _, r := range page {
					if r.ID <= last {
						s.Fatalf("%s after %s", r.ID, last)
					}
					last = r.ID
					seen[r.ID]++
				}
				after = last
				for range 10 {
					if i < len(pool) {
						s.add(job.Insert{ID: pool[len(pool)-i]})
						i += 2
					}
				}
			}
			for _, id := range want {
				if seen[id] != 1 {
					s.Errorf("%s was shown %d times", id, seen[id])
				}
			}
		}},
		{name: "J13/the list is filtered", run: func(s *jobs) {
			by := s.inEveryState()
			odd := s.add(job.Insert{Queue: "other", Type: "mail"})
			all := s.list(job.Filter{})
			created := s.record(by[job.Running]).CreatedAt
			filters := []job.Filter{
				{}, {Queue: "other"}, {Queue: "none"}, {Type: "mail"}, {Type: "MAIL"}, {IDs: []string{odd, by[job.Dead], newID()}}, {States: []job.State{job.Dead}},
				{States: []job.State{job.Ready, job.Running, job.Completed}}, {Queue: queue, States: []job.State{job.Ready}}, {ErrorContains: "why"},
				{ErrorContains: "WHY"}, {ErrorContains: "%"}, {ErrorContains: "_"}, {ErrorContains: "why: d"}, {ErrorContains: "w%d"}, {ErrorContains: "'"}, {CreatedBefore: created}, {CreatedAfter: created},
				{CreatedAfter: created.Add(-time.Microsecond), CreatedBefore: created.Add(time.Microsecond)}, {CreatedAfter: created.Add(-1), CreatedBefore: created.Add(1)}, {Queue: queue, Type: "t", ErrorContains: "dead"},
			}
			for _, f := range filters {
				want := matching(&f, all)
				if got := namesOf(s.list(f)); !slices.Equal(got, want) {
					s.Errorf("%+v: %d jobs %v, want %d", f, len(got), got, len(want))
				}
			}
		}},
		{name: "S7/each term of a filter selects what it says", run: termsSelect},
		{name: "S7/a filter that cannot be looked up is refused", run: func(s *jobs) {
			for _, bad := range []job.Filter{
				{Terms: filter.Terms{{Field: job.FieldMeta, Path: `a"b`, Values: filter.Exactly("x")}}},
				{Queue: "a\x00"}, {Type: "\xff"}, {ErrorContains: "\x00"}, {IDs: []string{newID(), "\xff"}}, {IDs: []string{"", newID()}},
			} {
				_, err := s.List(s.ctx, bad, "", 1)
				_, changeErr := s.Change(s.ctx, job.ActionDelete, bad, 1)
				for _, err := range []error{err, changeErr} {
					if _, ok := errors.AsType[*filter.Error](err); !ok {
						s.Errorf("%+v: %v", bad, err)
					}
				}
			}
		}},
		{name: "J13/an unknown action is refused", run: func(s *jobs) {
			id := s.add(job.Insert{})
			for _, unknown := range []job.Action{"", "Delete", "complete"} {
				for _, states := range [][]job.State{nil, {job.Ready}} {
					changed, err := s.Change(s.ctx, unknown, job.Filter{States: states}, 1)
					if want := unknown.Check().Error(); len(changed) > 0 || err == nil || !strings.Contains(err.Error(), want) {
						s.Errorf("Change(%q) changed %v: %v, want %s", unknown, changed, err, want)
					}
				}
			}
			s.in(id, job.Ready)
		}},
		{name: "J13/a filter on error text takes every character as it is", run: func(s *jobs) {
			for _, text := range []string{"100% sure", "snake_case", `back\slash`, "it's", "Ünder"} {
				s.attempt(job.Insert{}, job.KindDead, fails(text, 0))
			}
			for part, want := range map[string]int{"%": 1, "_": 1, `\`: 1, "'": 1, "Ü": 1, "ü": 0, "e": 3, "100%": 1, "1%s": 0, "snake-case": 0} {
				if got := s.list(job.Filter{ErrorContains: part}); len(got) != want {
					s.Errorf("%q is in %d errors, want %d", part, len(got), want)
				}
			}
		}},
		{name: "J13/the list is limited", run: func(s *jobs) {
			want := idsOf(s.enqueue(make([]job.Insert, 20)...))
			page, err := s.List(s.ctx, job.Filter{}, want[4], 5)
			s.must(err, nil)
			noDiff(s, "page", cmp.Diff(want[5:10], namesOf(page)))
			page, err = s.List(s.ctx, job.Filter{Queue: queue}, want[19], 5)
			if err != nil || len(page) != 0 {
				s.Fatalf("after the last: %v, %v", namesOf(page), err)
			}
			for _, none := range []int{0, -1} {
				if page, err = s.List(s.ctx, job.Filter{}, "", none); err != nil || len(page) != 0 {
					s.Fatalf("limit %d: %v, %v", none, namesOf(page), err)
				}
			}
		}},
		{name: "J13/statistics count by queue and state", run: func(s *jobs) {
			s.enqueue(job.Insert{Queue: "a"}, job.Insert{Queue: "a"}, job.Insert{Queue: "b"}, job.Insert{Queue: "b", RunAt: s.clock().Add(long)})
			s.inEveryState()
			stats, err := s.Stats(s.ctx)
			s.must(err, nil)
			want := map[string]job.QueueStats{
				"a": {Ready: 2}, "b": {Ready: 1, Scheduled: 1}, "clock": {Ready: 2},
				queue: {Waiting: 1, Scheduled: 1, Ready: 1, Running: 1, Completed: 1, Dead: 1, Cancelled: 1},
			}
			for name, q := range stats {
				q.OldestReady, q.Activity = 0, job.Activity{}
				stats[name] = q
			}
			noDiff(s, "statistics", cmp.Diff(want, stats))
		}},
		{name: "J13/statistics tell how long the oldest ready job has waited", run: func(s *jobs) {
			s.enqueue(job.Insert{Priority: 9, RunAt: s.clock().Add(-time.Hour)}, job.Insert{RunAt: s.clock().Add(-time.Minute)}, job.Insert{RunAt: s.clock().Add(time.Minute)})
			stats, err := s.Stats(s.ctx)
			if got := stats[queue].OldestReady; err != nil || got < time.Hour || got > time.Hour+time.Minute {
				s.Fatalf("%v, %v", got, err)
			}
		}},
	}
}

// changeCases checks operators' actions.
func changeCases() []jobsCase {
	return []jobsCase{
		{name: "J13/an action applies to its states only", run: func(s *jobs) {
			for _, action := range []job.Action{job.ActionRetry, job.ActionCancel, job.ActionDelete} {
				by := s.inEveryState()
				for state, id := range by {
					var want []string
					if action.Applies(state) {
						want = []string{id}
					}
					if got := s.change(action, job.Filter{IDs: []string{id}}, 10); !slices.Equal(got, want) {
						s.Errorf("%s of a %s job changed %v", action, state, got)
					}
				}
				s.change(job.ActionCancel, job.Filter{Queue: queue}, 100)
			}
		}},
		{name: "J13/retry sets a job's attempts back", run: func(s *jobs) {
			id := s.add(job.Insert{MaxAttempts: 2})
			s.must(s.settle(s.take(long).Ref(), job.KindRetry, fails("one", 0)), nil)
			second := s.take(long)
			s.must(s.settle(second.Ref(), job.KindDead, fails("two", 0)), nil)
			s.change(job.ActionRetry, job.Filter{States: []job.State{job.Dead}}, 10)
			got, history := s.job(id)
			if got.State != job.Ready || got.Failures != 0 || !got.FinishedAt.IsZero() || got.RunAt.After(s.clock()) || len(history) != 2 || !got.StartedAt.IsZero() {
				s.Fatalf("%+v with %+v", got, history)
			}
			r := s.take(long)
			if r.Fence <= second.Fence || r.Failures != 0 {
				s.Fatalf("claimed %+v", r)
			}
			s.must(s.settle(r.Ref(), job.KindRetry, fails("three", 0)), nil)
			if got, history = s.job(id); got.Failures != 1 || len(history) != 3 || history[2].Number != 1 {
				s.Fatalf("%+v with %+v", got, history)
			}
		}},
		{name: "J16/refusals before an operator's retry keep their row", run: func(s *jobs) {
			id := s.add(job.Insert{})
			for range 2 {
				s.must(s.settle(s.take(long).Ref(), job.KindRefuse, refused(0)), nil)
			}
			s.change(job.ActionRetry, job.Filter{IDs: []string{id}}, 1)
			if got, history := s.job(id); got.Refusals != 0 || len(history) != 1 || history[0].Count != 2 || history[0].Outcome != job.AttemptRefused {
				s.Fatalf("%+v with %+v", got, history)
			}
		}},
		{name: "J13/retry makes a scheduled job ready at once", run: func(s *jobs) {
			id := s.add(job.Insert{RunAt: s.clock().Add(long)})
			s.change(job.ActionRetry, job.Filter{IDs: []string{id}}, 1)
			s.in(id, job.Ready)
			s.take(long)
		}},
		{name: "J13/a token of before the retry is fenced", run: func(s *jobs) {
			old := s.start(job.Insert{}, s.short)
			s.maintainAfter(s.short)
			s.change(job.ActionRetry, job.Filter{IDs: []string{old.ID}}, 1)
			s.refuses(old.Ref(), job.ErrNotRunning)
			s.take(long)
			s.refuses(old.Ref(), job.ErrFenced)
		}},
		{name: "J13/a limit counts the jobs that were retried", run: func(s *jobs) {
			end := func(in job.Insert) string {
				r := s.attempt(in, job.KindComplete)
				return r.ID
			}
			first := end(job.Insert{UniqueKey: "k"})
			end(job.Insert{UniqueKey: "k"}) // left out: the first one of the call takes the key
			third := end(job.Insert{})
			noDiff(s, "changed", cmp.Diff([]string{first, third}, s.change(job.ActionRetry, job.Filter{Queue: queue}, 2)))
		}},
		{name: "J13/cancel ends a waiting job", run: func(s *jobs) {
			ready, scheduled := s.add(job.Insert{}), s.add(job.Insert{RunAt: s.clock().Add(long)})
			noDiff(s, "changed", cmp.Diff([]string{ready, scheduled}, s.change(job.ActionCancel, job.Filter{Queue: queue}, 10)))
			for _, id := range []string{ready, scheduled} {
				if r := s.in(id, job.Cancelled); r.FinishedAt.IsZero() {
					s.Fatalf("cancelled: %+v", r)
				}
			}
			s.claimed()
		}},
		{name: "J13/a running job learns of its cancellation when it extends", run: func(s *jobs) {
			r := s.start(job.Insert{}, s.short)
			s.change(job.ActionCancel, job.Filter{IDs: []string{r.ID}}, 1)
			if got := s.in(r.ID, job.Running); !got.CancelRequested() {
				s.Fatalf("cancelling: %+v", got)
			}
			s.must(s.extend(r.Ref(), long), job.ErrCancelRequested)
			if got := s.record(r.ID); !got.LeaseUntil.After(r.LeaseUntil) {
				s.Fatal("the lease was not extended")
			}
			s.must(s.settle(r.Ref(), job.KindCancel), nil)
			s.in(r.ID, job.Cancelled)
		}},
		{name: "J25/the request to cancel a running job stays on record with its time", run: func(s *jobs) {
			for _, kind := range []job.Kind{job.KindComplete, job.KindDead, job.KindCancel, job.KindRetry} {
				r := s.start(job.Insert{}, long)
				if !s.record(r.ID).CancelRequestedAt.IsZero() {
					s.Fatal("requested without a request")
				}
				from := s.clock()
				s.change(job.ActionCancel, job.Filter{IDs: []string{r.ID}}, 1)
				asked := s.in(r.ID, job.Running).CancelRequestedAt
				if asked.Before(from) || asked.After(s.clock()) || !asked.Equal(job.Stamp(asked)) {
					s.Fatalf("%s: requested at %v, asked after %v", kind, asked, from)
				}
				s.lapse(10 * time.Millisecond)
				s.change(job.ActionCancel, job.Filter{IDs: []string{r.ID}}, 1)
				s.must(s.settle(r.Ref(), kind, fails("x", 0)), map[job.Kind]error{job.KindRetry: job.ErrCancelRequested}[kind])
				if got := s.record(r.ID); !got.State.Finished() || !got.CancelRequestedAt.Equal(asked) {
					s.Errorf("%s: %s, requested at %v, first asked at %v", kind, got.State, got.CancelRequestedAt, asked)
				}
				if list := s.list(job.Filter{IDs: []string{r.ID}}); len(list) != 1 || !list[0].CancelRequestedAt.Equal(asked) {
					s.Errorf("%s: the list shows %+v", kind, list)
				}
				s.change(job.ActionRetry, job.Filter{IDs: []string{r.ID}}, 1)
				if got := s.in(r.ID, job.Ready); got.CancelRequested() {
					s.Errorf("%s: a job that is to run again is still to be cancelled", kind)
				}
				s.change(job.ActionDelete, job.Filter{IDs: []string{r.ID}}, 1)
			}
			r := s.add(job.Insert{})
			s.change(job.ActionCancel, job.Filter{IDs: []string{r}}, 1)
			if got := s.in(r, job.Cancelled); got.CancelRequested() {
				s.Error("a job that was not running was cancelled at once: nothing was requested of a worker")
			}
		}},
		{name: "J13/the next settlement of a job to be cancelled ends it", run: func(s *jobs) {
			want := map[job.Kind]job.State{
				job.KindComplete: job.Completed, job.KindDead: job.Dead, job.KindBury: job.Dead, job.KindRetry: job.Cancelled, job.KindRelease: job.Cancelled,
				job.KindSnooze: job.Cancelled, job.KindRefuse: job.Cancelled, job.KindCancel: job.Cancelled,
			}
			for _, kind := range kinds() {
				r := s.start(job.Insert{}, long)
				s.change(job.ActionCancel, job.Filter{IDs: []string{r.ID}}, 1)
				var answer error
				if want[kind] == job.Cancelled && kind != job.KindCancel {
					answer = job.ErrCancelRequested
				}
				for range 2 { // the first answer may be lost
					s.must(s.settle(r.Ref(), kind, fails("x", s.short)), answer)
				}
				got, history := s.job(r.ID)
				if got.State != want[kind] || got.FinishedAt.IsZero() || !rowOf(kind, history) {
					s.Errorf("%s: %+v with %+v", kind, got, history)
				}
			}
		}},
		{name: "J13/a job to be cancelled that loses its lease is cancelled", run: func(s *jobs) {
			r := s.start(job.Insert{}, s.short)
			s.change(job.ActionCancel, job.Filter{IDs: []string{r.ID}}, 1)
			s.maintainAfter(s.short)
			same(s, "failures", s.in(r.ID, job.Cancelled).Failures, 1)
		}},
		{name: "J13/delete removes a job with its history", run: func(s *jobs) {
			r := s.attempt(job.Insert{}, job.KindDead, fails("x", 0))
			s.change(job.ActionDelete, job.Filter{IDs: []string{r.ID}}, 1)
			if _, _, err := s.Get(s.ctx, r.ID); !errors.Is(err, job.ErrNotFound) {
				s.Fatalf("after the deletion: %v", err)
			}
			s.must(s.settle(r.Ref(), job.KindDead), job.ErrNotFound)
			s.add(job.Insert{ID: r.ID})
			_, history := s.job(r.ID)
			same(s, "attempts of a new job of the same ID", len(history), 0)
			same(s, "the token of a new job of the same ID", s.take(long).Fence, 1)
		}},
		{name: "J13/an action takes the oldest first, up to its limit", run: func(s *jobs) {
			all := idsOf(s.enqueue(make([]job.Insert, 10)...))
			for i := range all {
				r := s.take(long)
				s.must(s.settle(r.Ref(), job.KindDead, fails(fmt.Sprint("error ", i%2), 0)), nil)
			}
			dead := job.Filter{States: []job.State{job.Dead}, ErrorContains: "error 1"}
			noDiff(s, "changed", cmp.Diff([]string{all[1], all[3]}, s.change(job.ActionRetry, dead, 2)))
			noDiff(s, "changed", cmp.Diff([]string{all[5], all[7], all[9]}, s.change(job.ActionRetry, dead, 100)))
			same(s, "dead jobs", len(s.list(job.Filter{States: []job.State{job.Dead}})), 5)
		}},
	}
}
