package job_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/job"
)

func TestJ23Decisions(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	const poll = 250 * time.Millisecond
	for _, c := range []struct {
		name   string
		plan   job.RedrivePlan
		counts job.RedriveCounts
		change func(*job.Redrive)
		want   job.RedriveVerdict
	}{
		{name: "all at once", counts: job.RedriveCounts{Total: 5}, want: job.RedriveVerdict{Release: 5}},
		{name: "a step is bounded", counts: job.RedriveCounts{Total: 5000}, want: job.RedriveVerdict{Release: 1000}},
		{name: "the rest", counts: job.RedriveCounts{Total: 9, Released: 4, Skipped: 2}, want: job.RedriveVerdict{Release: 3}},
		{name: "nothing left, one pending", counts: job.RedriveCounts{Total: 3, Released: 2, Skipped: 1, Dead: 1}, want: job.RedriveVerdict{Wait: poll}},
		{name: "nothing left, none pending", counts: job.RedriveCounts{Total: 4, Released: 3, Skipped: 1, Dead: 1, Completed: 1, Removed: 1}, want: job.RedriveVerdict{State: job.RedriveFinished}},
		{name: "all skipped", counts: job.RedriveCounts{Total: 4, Skipped: 4}, want: job.RedriveVerdict{State: job.RedriveFinished}},
		{name: "the canary", plan: job.RedrivePlan{Canary: 2}, counts: job.RedriveCounts{Total: 9}, want: job.RedriveVerdict{Release: 2}},
		{name: "the canary after a skipped job", plan: job.RedrivePlan{Canary: 2}, counts: job.RedriveCounts{Total: 9, Released: 1, Skipped: 1}, want: job.RedriveVerdict{Release: 1}},
		{name: "the canary runs", plan: job.RedrivePlan{Canary: 2}, counts: job.RedriveCounts{Total: 9, Released: 2, Completed: 1}, want: job.RedriveVerdict{Wait: poll}},
		{name: "the canary has completed", plan: job.RedrivePlan{Canary: 2}, counts: job.RedriveCounts{Total: 9, Released: 2, Completed: 2}, want: job.RedriveVerdict{Release: 7}},
		{
			name: "the canary was cancelled", plan: job.RedrivePlan{Canary: 2}, counts: job.RedriveCounts{Total: 9, Released: 2, Cancelled: 1},
			want: job.RedriveVerdict{State: job.RedriveStopped, Reason: "canary: of 2 jobs 0 died again, 1 were cancelled and 0 were removed before their outcome was seen"},
		},
		{name: "one dies after the canary", plan: job.RedrivePlan{Canary: 2}, counts: job.RedriveCounts{Total: 9, Released: 3, Completed: 2, Dead: 1}, want: job.RedriveVerdict{Release: 6}},
		{name: "too few to stop", plan: job.RedrivePlan{StopShare: 0.5, StopLeast: 3}, counts: job.RedriveCounts{Total: 9, Released: 4, Dead: 2}, want: job.RedriveVerdict{Release: 5}},
		{name: "too small a share to stop", plan: job.RedrivePlan{StopShare: 0.5, StopLeast: 2}, counts: job.RedriveCounts{Total: 9, Released: 5, Completed: 3, Dead: 2}, want: job.RedriveVerdict{Release: 4}},
		{
			name: "the share is reached", plan: job.RedrivePlan{StopShare: 0.4, StopLeast: 2}, counts: job.RedriveCounts{Total: 9, Released: 5, Completed: 3, Dead: 2},
			want: job.RedriveVerdict{State: job.RedriveStopped, Reason: "2 of 5 jobs that have ended died again: 40 %, with a threshold of 40 % and at least 2 jobs"},
		},
		{name: "as many pending as allowed", plan: job.RedrivePlan{MaxPending: 2}, counts: job.RedriveCounts{Total: 9, Released: 3, Completed: 1}, want: job.RedriveVerdict{Wait: poll}},
		{name: "fewer pending than allowed", plan: job.RedrivePlan{MaxPending: 3}, counts: job.RedriveCounts{Total: 9, Released: 3, Completed: 1}, want: job.RedriveVerdict{Release: 1}},
		{name: "the first at a rate", plan: job.RedrivePlan{Rate: 50}, counts: job.RedriveCounts{Total: 9}, want: job.RedriveVerdict{Release: 1, Wait: 100 * time.Millisecond}},
		{
			name: "100 ms at a rate", plan: job.RedrivePlan{Rate: 50}, counts: job.RedriveCounts{Total: 9, Released: 1},
			change: func(r *job.Redrive) { r.Progress.NextAt = now.Add(-80 * time.Millisecond) }, want: job.RedriveVerdict{Release: 5, Wait: 100 * time.Millisecond},
		},
		{
			name: "too early at a rate", plan: job.RedrivePlan{Rate: 0.01}, counts: job.RedriveCounts{Total: 9, Released: 1},
			change: func(r *job.Redrive) { r.Progress.NextAt = now.Add(time.Microsecond) }, want: job.RedriveVerdict{Wait: 100 * time.Millisecond},
		},
		{
			name: "an hour late at a rate", plan: job.RedrivePlan{Rate: 5}, counts: job.RedriveCounts{Total: 900, Released: 1},
			change: func(r *job.Redrive) { r.Progress.NextAt = now.Add(-time.Hour) }, want: job.RedriveVerdict{Release: 6, Wait: 200 * time.Millisecond},
		},
		{name: "paused", counts: job.RedriveCounts{Total: 9}, change: func(r *job.Redrive) { r.State = job.RedrivePaused }, want: job.RedriveVerdict{Wait: 2 * time.Second}},
		{name: "undo", counts: job.RedriveCounts{Total: 9}, change: func(r *job.Redrive) { r.State, r.Undo = job.RedriveAborted, true }, want: job.RedriveVerdict{Undo: 1000}},
		{
			name: "a selection that is not needed", counts: job.RedriveCounts{Total: 50_000, Released: 9},
			change: func(r *job.Redrive) { r.State, r.Progress.Discarded = job.RedriveStopped, 40_000 }, want: job.RedriveVerdict{Discard: 9991},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := job.Redrive{State: job.RedriveRunning, RedrivePlan: c.plan, RedriveCounts: c.counts}
			if c.change != nil {
				c.change(&r)
			}
			if diff := cmp.Diff(c.want, r.Decide(now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// selection is one whose jobs end as the test wants.
type selection struct {
	t       *rapid.T
	pending []job.RedriveEnded // with how they will end
	next    int
}

// Settled implements job.RedriveSelection.
func (s *selection) Settled(_, n int) (ended []job.RedriveEnded, last int, err error) {
	n = rapid.IntRange(0, min(n, len(s.pending))).Draw(s.t, "end")
	ended, s.pending = s.pending[:n], s.pending[n:]
	return ended, 0, nil
}

// Release implements job.RedriveSelection.
func (s *selection) Release(after, n int) (int, error) {
	if after != s.next {
		s.t.Fatalf("released behind %d, want %d", after, s.next)
	}
	s.next += n
	released := n - rapid.IntRange(0, min(n, 2)).Draw(s.t, "skipped")
	for range released {
		state := rapid.SampledFrom([]job.State{job.Completed, job.Completed, job.Completed, job.Dead, job.Cancelled, ""}).Draw(s.t, "state")
		s.pending = append(s.pending, job.RedriveEnded{State: state})
	}
	return released, nil
}

// Undo implements job.RedriveSelection.
func (s *selection) Undo(int, int) (int, int, error) {
	n := rapid.IntRange(0, len(s.pending)).Draw(s.t, "undone")
	s.pending = s.pending[n:]
	return n, 0, nil
}

// Discard implements job.RedriveSelection.
func (s *selection) Discard(after, n int) error {
	if after != s.next {
		s.t.Fatalf("discarded behind %d, want %d", after, s.next)
	}
	s.next += n
	return nil
}

// TestJ23NoReleaseBreaksThePlan runs redrives with random plans, outcomes and changes.
func TestJ23NoReleaseBreaksThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
		n := job.NewRedrive{ID: "01990000-0000-7000-8000-000000000001", RedrivePlan: job.RedrivePlan{
			Rate: rapid.SampledFrom([]float64{0, 0.5, 7, 5000}).Draw(t, "rate"), Canary: rapid.IntRange(0, 5).Draw(t, "canary"),
			StopShare: rapid.SampledFrom([]float64{0, 0.2, 0.9}).Draw(t, "stop"), MaxPending: rapid.IntRange(0, 5).Draw(t, "pending"),
		}}
		r := n.Start([]job.RedriveGroup{{Jobs: rapid.IntRange(1, 60).Draw(t, "total")}}, now)
		s := &selection{t: t}
		began := now
		for range 200 {
			before := r
			v, err := r.Step(now, 0, s)
			if err != nil {
				t.Fatal(err)
			}
			released := r.Released - before.Released
			died := r.Dead
			switch {
			case released > 0 && before.State != job.RedriveRunning:
				t.Fatalf("%d released while %s", released, before.State)
			case r.Released+r.Skipped > r.Total || r.Pending() != len(s.pending) || r.Left() < 0:
				t.Fatalf("%+v", r.RedriveCounts)
			case r.MaxPending > 0 && released > 0 && r.Pending() > r.MaxPending:
				t.Fatalf("%d pending", r.Pending())
			case r.Canary > 0 && r.Released > r.Canary && r.Completed < min(r.Canary, r.Released) && before.Released <= r.Canary:
				t.Fatalf("the others follow a canary of %d of which %d have completed", r.Canary, r.Completed)
			case r.StopShare > 0 && released > 0 && died >= r.StopLeast && float64(died) >= r.StopShare*float64(r.Completed+r.Dead+r.Cancelled+r.Removed):
				t.Fatalf("%d released with %d dead of %+v", released, died, r.RedriveCounts)
			case r.Rate > 0 && float64(r.Released) > 2+r.Rate+r.Rate*now.Sub(began).Seconds():
				t.Fatalf("%d released in %v at %v/s", r.Released, now.Sub(began), r.Rate)
			case v.State == job.RedriveFinished && (r.Pending() > 0 || r.Left() > 0):
				t.Fatalf("finished with %+v", r.RedriveCounts)
			case !r.Active() && r.State == job.RedriveRunning:
				t.Fatal("a running redrive is not active")
			}
			if v.State != "" {
				if err := r.Apply(job.RedriveChange{Action: job.RedriveEnd, State: v.State, Reason: v.Reason}, now); err != nil {
					t.Fatal(err)
				}
			}
			if action := rapid.SampledFrom([]job.RedriveAction{"", "", "", "", "", "", job.RedrivePause, job.RedriveResume, job.RedriveUndo, job.RedriveAbort}).Draw(t, "action"); action != "" {
				if err := r.Apply(job.RedriveChange{Action: action, Actor: "a"}, now); err != nil && !errors.Is(err, job.ErrConflict) {
					t.Fatal(err)
				}
			}
			now = now.Add(max(v.Wait, time.Millisecond))
		}
	})
}

func TestJ23Defaults(t *testing.T) {
	now := time.Now()
	start := func(total int, change func(*job.NewRedrive)) job.Redrive {
		n := job.NewRedrive{}
		change(&n)
		return n.Start([]job.RedriveGroup{{Jobs: total}}, now)
	}
	if r := start(12_000, func(n *job.NewRedrive) { n.StopShare, n.CanaryShare = 0.2, 0.001 }); r.StopLeast != 10 || r.MaxPending != 1000 || r.Canary != 12 {
		t.Errorf("%+v", r.RedrivePlan)
	}
	if r := start(3, func(n *job.NewRedrive) { n.StopShare, n.Canary = 0.01, 20 }); r.StopLeast != 1 || r.Canary != 3 {
		t.Errorf("%+v", r.RedrivePlan)
	}
	if r := start(3, func(*job.NewRedrive) {}); r.RedrivePlan != (job.RedrivePlan{}) {
		t.Errorf("%+v", r.RedrivePlan)
	}
	if r := start(1, func(n *job.NewRedrive) { n.Filter.IDs = make([]string, 500); n.Filter.Queue = "q" }); r.Filter != "id:(500 jobs) queue:q" {
		t.Errorf("%q", r.Filter)
	}
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1), 1e-9, 2e6} {
		n := job.NewRedrive{ID: strings.Repeat("x", 36), RedrivePlan: job.RedrivePlan{Rate: rate}}
		if _, ok := errors.AsType[*job.RedriveError](n.Check()); !ok {
			t.Errorf("rate %v: %v", rate, n.Check())
		}
	}
}

// TestJ23ALeastNumberWithoutAThresholdIsRefused: who gives one expects that the redrive stops.
func TestJ23ALeastNumberWithoutAThresholdIsRefused(t *testing.T) {
	n := job.NewRedrive{ID: strings.Repeat("x", 36), RedrivePlan: job.RedrivePlan{StopLeast: 5}}
	if refused, ok := errors.AsType[*job.RedriveError](n.Check()); !ok || refused.Field != "stop_least" {
		t.Error(n.Check())
	}
	if n.StopShare = 0.2; n.Check() != nil {
		t.Error(n.Check())
	}
}

// TestS7FiltersHaveOneText checks that the text of a filter selects what the filter selects.
func TestS7FiltersHaveOneText(t *testing.T) {
	at := time.Date(2026, 3, 2, 8, 0, 0, 5000, time.UTC)
	f := job.Filter{
		IDs: []string{"a", "b"}, Queue: "q, 1", Type: "mail:*", States: []job.State{job.Dead, job.Ready}, ErrorContains: `say "x"`, CreatedBefore: at, CreatedAfter: at.Add(-time.Hour),
		Terms: filter.Terms{{Field: job.FieldMeta, Path: "tenant", Values: filter.Exactly("acme")}},
	}
	text := f.String()
	got, err := job.ParseFilter(text, at)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if again := got.String(); len(again) != len(text) {
		t.Errorf("%s\nbecomes\n%s", text, again)
	}
	if !got.CreatedBefore.Equal(at) || !got.CreatedAfter.Equal(at.Add(-time.Hour)) || len(got.Terms) != 4 {
		t.Errorf("%+v", got)
	}
}
