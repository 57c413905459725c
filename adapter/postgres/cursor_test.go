package postgres

import (
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
)

// records makes n jobs of a priority, a second apart, from the given second on.
func records(n, priority, second int) []*job.Record {
	list := make([]*job.Record, n)
	for i := range list {
		list[i] = &job.Record{ID: "01990000-0000-7000-b000-000000000001", Priority: priority, RunAt: time.Unix(int64(second+i), 0)}
	}
	return list
}

func TestJ10OnlyBusyQueuesUseAPosition(t *testing.T) {
	now := time.Unix(0, 0)
	var c cursors
	starts := func(want int) { // the second of priority 1, or -1 for the head
		t.Helper()
		from, onward := c.start("q", now)
		if onward != (want >= 0) || onward && !from[1].runAt.Equal(time.Unix(int64(want), 0)) {
			t.Fatalf("starts at %v, onward %v; want %d", from[1].runAt, onward, want)
		}
	}
	starts(-1)
	c.advance("q", claimResult{records(busyAfter-1, 1, 0), busyAfter - 1, time.Millisecond, now})
	starts(-1)
	c.advance("q", claimResult{records(1, 1, 7000), 1, time.Millisecond, now})
	starts(7000)
	if _, onward := c.start("other", now); onward {
		t.Fatal("the position of another queue was used")
	}
	c.advance("q", claimResult{records(10, 1, 8000), 10, 0, now})
	starts(8009)
	now = now.Add(headEvery)
	starts(-1)
	c.advance("q", claimResult{records(10, 1, 100), 10, time.Millisecond, now}) // some jobs after the position
	starts(109)
}

func TestJ10ASlowHeadIsReadRarely(t *testing.T) {
	now := time.Unix(0, 0)
	var c cursors
	for _, s := range []struct{ took, pause time.Duration }{
		{time.Millisecond, headEvery}, {40 * time.Millisecond, 800 * time.Millisecond}, {time.Minute, headAtLeast},
	} {
		c.advance("q", claimResult{records(busyAfter, 1, 0), busyAfter, s.took + busyAfter*perJob, now})
		if _, onward := c.start("q", now.Add(s.pause-1)); !onward {
			t.Errorf("after %v the head is read within %v", s.took, s.pause)
		}
		if _, onward := c.start("q", now.Add(s.pause)); onward {
			t.Errorf("after %v the head is not read after %v", s.took, s.pause)
		}
	}
}

func TestJ10ADrainedQueueIsReadFromAQuickHead(t *testing.T) {
	now := time.Unix(0, 0)
	for _, quick := range []bool{true, false} {
		var c cursors
		took := quickHead + busyAfter*perJob
		if quick {
			took--
		}
		c.advance("q", claimResult{records(busyAfter, 1, 0), busyAfter, took, now})
		if c.mayHaveMore("q") != quick {
			t.Errorf("quick %v: more jobs are expected at the head: %v", quick, c.mayHaveMore("q"))
		}
		c.advance("q", claimResult{nil, 10, 0, now})
		if _, onward := c.start("q", now); onward == quick {
			t.Errorf("quick %v: onward %v", quick, onward)
		}
	}
}

func TestJ6ASweepContinuesTheLastOneAndSometimesStartsAnew(t *testing.T) {
	now := time.Unix(1000, 0)
	var s sweep
	if at := s.from(now); at.Time.Equal(now) || at.InfinityModifier == 0 {
		t.Fatalf("the first starts at %v", at)
	}
	s.done(now)
	if at := s.from(now.Add(time.Second)); !at.Time.Equal(now.Add(-sweepMargin)) {
		t.Fatalf("the next starts at %v", at.Time)
	}
	if at := s.from(now.Add(sweepWhole)); at.InfinityModifier == 0 {
		t.Fatalf("the last starts at %v", at.Time)
	}
	if at := s.from(now.Add(sweepWhole)); at.InfinityModifier != 0 {
		t.Fatal("two in a row start at the beginning")
	}
	s.restart()
	if at := s.from(now.Add(sweepWhole)); at.InfinityModifier == 0 {
		t.Fatalf("after a restart it starts at %v", at.Time)
	}
}
