package storetest

import (
	"slices"
	"strings"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// maxInspected bounds how many histories a check reads, so that cases with many jobs end soon.
const maxInspected = 300

// checkInvariants checks what holds at all times: every job is listed once, in one state; no job that was stored is gone;
// a lease is there exactly while a job runs; attempts agree with the history.
func (s *jobs) checkInvariants() {
	s.Helper()
	seen := map[string]bool{}
	count := map[string]job.QueueStats{}
	dead := map[causeName]int{}
	for after := ""; ; {
		page, err := s.List(s.ctx, job.Filter{}, after, 1000)
		if err != nil {
			s.Errorf("List: %v", err)
			return
		}
		for _, r := range page {
			if seen[r.ID] {
				s.Errorf("J13: job %s is listed twice", r.ID)
			}
			seen[r.ID] = true
			s.checkRecord(r)
			stats := count[r.Queue]
			*stats.Of(r.State)++
			count[r.Queue] = stats
			if r.State == job.Dead {
				dead[causeName{r.Cause, r.Queue, r.Type}]++
			}
			if len(seen) <= maxInspected {
				s.checkHistory(r.ID)
			}
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].ID
	}
	for id := range s.kept {
		if !seen[id] {
			s.Errorf("J1: job %s is lost", id)
		}
	}
	s.checkStats(count)
	s.checkCauses(dead)
	s.checkPlaces()
}

// checkPlaces checks that limits count the places of the jobs that are there: a place that nobody gives back blocks its bucket for
// ever, and one that is given back twice lets too many jobs run.
func (s *jobs) checkPlaces() {
	s.Helper()
	limiter, ok := s.Store.(job.Limiter)
	if !ok {
		return
	}
	limits, err := limiter.Limits(s.ctx)
	if err != nil {
		s.Errorf("Limits: %v", err)
	}
	if len(limits) == 0 {
		return
	}
	s.settled()
	held, waiting := map[job.LimitName]int{}, 0
	for _, r := range s.list(job.Filter{States: []job.State{job.Ready, job.Running, job.Waiting}}) {
		if r.State == job.Waiting {
			if strings.HasPrefix(r.WaitsFor, "limit ") {
				waiting++
			}
			continue
		}
		for _, l := range limits {
			if l.Bounds(r) {
				held[l.LimitName]++
			}
		}
	}
	for _, l := range limits {
		in := l.InForce()
		if in == nil {
			continue
		}
		use, err := limiter.LimitUse(s.ctx, l.LimitName, 1)
		if err != nil {
			s.Errorf("LimitUse(%s): %v", l.LimitName, err)
		}
		if in.Order != policy.OrderStrict && use.Held != held[l.LimitName] { // in strict order, jobs keep their places while they wait
			s.Errorf("J19: %s: the store counts %d places, its jobs have %d", l.LimitName, use.Held, held[l.LimitName])
		}
		waiting -= use.Waiting
	}
	if waiting != 0 {
		s.Errorf("J19: %d more jobs wait for limits than the limits count", waiting)
	}
}

func (s *jobs) checkRecord(r *job.Record) {
	s.Helper()
	if !slices.Contains(job.States(), r.State) {
		s.Errorf("J2: job %s is in state %q", r.ID, r.State)
	}
	if (r.State == job.Running) == r.LeaseUntil.IsZero() {
		s.Errorf("J4: job %s is %s with a lease until %v", r.ID, r.State, r.LeaseUntil)
	}
	if r.State.Finished() == r.FinishedAt.IsZero() {
		s.Errorf("J2: job %s is %s, finished at %v", r.ID, r.State, r.FinishedAt)
	}
	if (r.State == job.Waiting) == (r.WaitsFor == "") {
		s.Errorf("J20: job %s is %s and waits for %q", r.ID, r.State, r.WaitsFor)
	}
	if r.Fence != 0 {
		s.Errorf("J26: job %s is handed out with its lease %d", r.ID, r.Fence)
	}
}

// checkHistory checks that attempts = failed and lost rows since the last operator's retry, and that a dead job shows all
// its attempts and the final error.
func (s *jobs) checkHistory(id string) {
	s.Helper()
	r, history, err := s.Get(s.ctx, id)
	if err != nil {
		s.Errorf("Get(%s): %v", id, err)
		return
	}
	spent, last := 0, ""
	for _, a := range history {
		if s.retried[id] && a.Number == 1 {
			spent = 0
		}
		if a.Number != spent+1 {
			s.Errorf("J4: job %s: %s row is numbered %d after %d attempts", id, a.Outcome, a.Number, spent)
		}
		if a.Count < 1 {
			s.Errorf("J16: job %s: %s row counts %d", id, a.Outcome, a.Count)
		}
		if a.Outcome == job.AttemptFailed || a.Outcome == job.AttemptLost {
			spent++
			last = a.Error
		}
	}
	justRetried := s.retried[id] && r.Failures == 0
	if r.Failures != spent && !justRetried {
		s.Errorf("J4: job %s: %d attempts, %d in its history", id, r.Failures, spent)
	}
	if r.Failures > 0 && r.LastError != last {
		s.Errorf("J4: job %s: last error %q, %q in its history", id, r.LastError, last)
	}
}

func (s *jobs) checkStats(want map[string]job.QueueStats) {
	s.Helper()
	stats, err := s.Stats(s.ctx)
	if err != nil {
		s.Errorf("Stats: %v", err)
		return
	}
	for name, got := range stats {
		got.OldestReady, got.Activity = 0, job.Activity{}
		if got != want[name] {
			s.Errorf("J13: statistics of queue %q: %+v, the list has %+v", name, got, want[name])
		}
	}
	for name := range want {
		if _, ok := stats[name]; !ok {
			s.Errorf("J13: queue %q is missing from the statistics", name)
		}
	}
}
