package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/internal/history"
)

var start = time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)

func did(completed, attempts int64) job.QueueStats {
	return job.QueueStats{Ready: 1, Activity: job.Activity{Completed: completed, Attempts: attempts}}
}

func TestU2APointHasWhatHappenedSinceTheOneBefore(t *testing.T) {
	var h history.History
	h.Add(start, map[string]job.QueueStats{"a": did(1000, 2000)}, nil)
	h.Add(start.Add(time.Second), map[string]job.QueueStats{"a": did(1010, 2015), "new": did(500, 500)}, []job.Finish{
		{Queue: "a", Due: start, Finished: start.Add(time.Second)}, {Queue: "a", Due: start, Finished: start.Add(time.Second)},
	})
	h.Add(start.Add(3*time.Second), map[string]job.QueueStats{"a": did(4, 4), "new": did(503, 505)}, nil) // the store has forgotten a
	points := h.Points(history.Second, 10)
	if len(points) != 2 {
		t.Fatalf("%d points", len(points))
	}
	type seen struct {
		At, Since time.Duration
		A, New    job.Activity
		Total     job.Activity
	}
	var got []seen
	for _, p := range points {
		got = append(got, seen{p.At.Sub(start), p.Since, p.Queues[0].Did, p.Queues[1].Did, p.Total.Did})
	}
	want := []seen{
		{time.Second, time.Second, job.Activity{Completed: 10, Attempts: 15}, job.Activity{Completed: 500, Attempts: 500}, job.Activity{Completed: 510, Attempts: 515}},
		{3 * time.Second, 2 * time.Second, job.Activity{Completed: 4, Attempts: 4}, job.Activity{Completed: 3, Attempts: 5}, job.Activity{Completed: 7, Attempts: 9}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	if p := points[0].Total; p.P50 < 950*time.Millisecond || p.P50 > 1050*time.Millisecond || p.P99 != p.P50 || points[1].Total.P50 != 0 {
		t.Errorf("latencies %v %v, then %v", p.P50, p.P99, points[1].Total.P50)
	}
	if p := points[0].Total.Stats; p.Ready != 2 {
		t.Errorf("total %+v", p)
	}
}

// TestU2NothingIsLostBetweenSteps checks that points of each step add up to what the counters have grown, however far apart
// samples are.
func TestU2NothingIsLostBetweenSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h history.History
		at, n := start, int64(0)
		h.Add(at, map[string]job.QueueStats{"a": did(0, 0)}, nil)
		for _, pause := range rapid.SliceOfN(rapid.IntRange(1, 30_000), 1, 100).Draw(t, "pauses") {
			at = at.Add(time.Duration(pause) * time.Millisecond)
			n += rapid.Int64Range(0, 100).Draw(t, "completed")
			h.Add(at, map[string]job.QueueStats{"a": did(n, n)}, nil)
		}
		at = at.Truncate(time.Minute).Add(time.Minute)
		h.Add(at, map[string]job.QueueStats{"a": did(n, n)}, nil)
		for _, step := range []time.Duration{history.Second, history.Tens, history.Minute} {
			sum, covered := int64(0), time.Duration(0)
			for _, p := range h.Points(step, 10_000) {
				sum, covered = sum+p.Total.Did.Completed, covered+p.Since
			}
			if sum != n || covered != at.Sub(start) {
				t.Errorf("points of %v have %d in %v, want %d in %v", step, sum, covered, n, at.Sub(start))
			}
		}
	})
}

// TestU2AQueueThatBecomesEmptyKeepsWhatItDid removes the last job of a queue, which stores then leave out of their counters.
func TestU2AQueueThatBecomesEmptyKeepsWhatItDid(t *testing.T) {
	var h history.History
	h.Add(start, map[string]job.QueueStats{"a": did(0, 0)}, nil)
	h.Add(start.Add(20*time.Second), map[string]job.QueueStats{"a": did(7, 9)}, nil)
	h.Add(start.Add(time.Minute), map[string]job.QueueStats{}, nil)
	p := h.Points(history.Minute, 1)[0]
	if want := (job.Activity{Completed: 7, Attempts: 9}); p.Total.Did != want || len(p.Queues) != 1 || p.Queues[0].Did != want || p.Queues[0].Stats.Ready != 0 {
		t.Errorf("%+v", p)
	}
	h.Add(start.Add(2*time.Minute), map[string]job.QueueStats{}, nil)
	if p := h.Points(history.Minute, 1)[0]; len(p.Queues) != 0 {
		t.Errorf("a minute later: %+v", p)
	}
}

func TestU2TheHistoryIsBounded(t *testing.T) {
	var h history.History
	stats := map[string]job.QueueStats{}
	for i := range 2 * history.MaxQueues {
		stats[fmt.Sprintf("q%03d", i)] = job.QueueStats{Ready: i}
	}
	for i := range 2000 {
		h.Add(start.Add(time.Duration(i)*time.Second), stats, nil)
	}
	points := h.Points(history.Second, 10_000)
	if last := points[len(points)-1]; len(points) != 900 || !last.At.Equal(start.Add(1999*time.Second)) || !points[0].At.Equal(start.Add(1100*time.Second)) {
		t.Errorf("%d points from %v to %v", len(points), points[0].At, last.At)
	}
	if p := points[0]; len(p.Queues) != history.MaxQueues || p.Queues[0].Queue != "q050" || p.Total.Stats.Ready != 99*100/2 {
		t.Errorf("%d queues from %s, total %+v", len(p.Queues), p.Queues[0].Queue, p.Total.Stats)
	}
	if n := len(h.Points(history.Second, 7)); n != 7 {
		t.Errorf("%d points", n)
	}
}

// TestU2AClockThatStepsBackDoesNotStopTheHistory sets the clock back by an hour.
func TestU2AClockThatStepsBackDoesNotStopTheHistory(t *testing.T) {
	var h history.History
	for i := range 121 {
		at := start.Add(time.Duration(i) * time.Second)
		if i > 60 {
			at = at.Add(-time.Hour)
		}
		h.Add(at, map[string]job.QueueStats{"a": did(0, 0)}, nil)
	}
	if n := len(h.Points(history.Minute, 10)); n != 3 {
		t.Errorf("%d points of a minute, want one before the step, one at it and one after it", n)
	}
}

func TestU2LatenciesAreOffByATwentiethAtMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := time.Duration(rapid.Int64Range(int64(2*time.Millisecond), int64(24*time.Hour)).Draw(t, "took"))
		var h history.History
		stats := map[string]job.QueueStats{"a": {}}
		h.Add(start, stats, nil)
		h.Add(start.Add(time.Second), stats, []job.Finish{{Queue: "a", Due: start, Finished: start.Add(took)}})
		p := h.Points(history.Second, 1)[0].Queues[0]
		if off := float64(p.P95-took) / float64(took); off > 0.05 || off < -0.05 {
			t.Errorf("%v for %v", p.P95, took)
		}
	})
}
