package history

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tenetdev/tenet/job"
)

// The steps of points, and how many points of each are kept.
const (
	Second = time.Second
	Tens   = 10 * time.Second
	Minute = time.Minute
)

// MaxQueues bounds the queues of a point: those with the most jobs and attempts are kept.
const MaxQueues = 50

// maxKnown bounds the queues whose counters are remembered while they have no jobs.
const maxKnown = 10_000

// Sample is the state of a queue at the end of a point, and what happened since the point before.
type Sample struct {
	Queue         string // "" for all
	Stats         job.QueueStats
	Did           job.Activity  // since the point before
	P50, P95, P99 time.Duration // from due to finished; 0 if nothing has finished
}

// Point is the end of a step.
type Point struct {
	At     time.Time
	Since  time.Duration // the point before
	Total  Sample
	Queues []Sample // by name
	cut    bool     // further queues are left out
}

// Knows reports whether the point knows some of the queues: the sample of one, or that none of them had jobs.
func (p *Point) Knows(asked func(queue string) bool) bool {
	return !p.cut || slices.ContainsFunc(p.Queues, func(s Sample) bool { return asked(s.Queue) })
}

// History is the memory of one server. The zero value is empty; it is safe for concurrent use.
type History struct {
	mu     sync.Mutex // guards all below
	begun  bool
	known  map[string]job.Activity // the last counters of each queue
	levels [3]level
}

// level keeps the points of one step.
type level struct {
	points []Point // a ring of the newest
	next   int
	opened time.Time
	did    map[string]job.Activity
	took   map[string]*latencies
}

var sizes = [3]struct {
	step   time.Duration
	points int
}{{Second, 900}, {Tens, 720}, {Minute, 1440}}

// Add adds a sample: the counters at a time, and jobs that have finished since the sample before. It keeps none of its
// arguments.
func (h *History) Add(at time.Time, stats map[string]job.QueueStats, finished []job.Finish) {
	h.mu.Lock()
	defer h.mu.Unlock()
	did := h.did(stats)
	if !h.begun { // there is nothing before to compare with
		h.begun = true
		for i := range h.levels {
			h.levels[i].open(at)
		}
		return
	}
	for i := range h.levels {
		l := &h.levels[i]
		for queue, a := range did {
			sum := l.did[queue]
			sum.Add(a)
			l.did[queue] = sum
		}
		for _, f := range finished {
			l.latency(f.Queue).add(f.Finished.Sub(f.Due))
			l.latency("").add(f.Finished.Sub(f.Due))
		}
		if step := sizes[i].step; step == Second || !at.Truncate(step).Equal(l.opened.Truncate(step)) {
			l.close(at, stats, sizes[i].points)
			l.open(at)
		}
	}
}

// did returns how the counters of each queue have grown since the last sample, those of a new queue from zero. Counters that have
// become smaller began anew.
func (h *History) did(stats map[string]job.QueueStats) map[string]job.Activity {
	begins := h.known == nil || len(h.known) > maxKnown // then the counters of all may be old
	if begins {
		h.known = map[string]job.Activity{}
	}
	did := map[string]job.Activity{}
	for queue, q := range stats {
		if !begins {
			did[queue] = q.Activity.Since(h.known[queue])
		}
		h.known[queue] = q.Activity
	}
	return did
}

func (l *level) open(at time.Time) {
	l.opened, l.did, l.took = at, map[string]job.Activity{}, map[string]*latencies{}
}

func (l *level) latency(queue string) *latencies {
	if l.took[queue] == nil {
		if len(l.took) > maxKnown {
			clear(l.took)
		}
		l.took[queue] = &latencies{}
	}
	return l.took[queue]
}

// sample describes a queue.
func (l *level) sample(queue string, stats job.QueueStats, did job.Activity) Sample {
	s := Sample{Queue: queue, Stats: stats, Did: did}
	if took := l.took[queue]; took != nil {
		s.P50, s.P95, s.P99 = took.quantile(0.5), took.quantile(0.95), took.quantile(0.99)
	}
	return s
}

func (l *level) close(at time.Time, stats map[string]job.QueueStats, size int) {
	p := Point{At: at, Since: at.Sub(l.opened)}
	var total job.QueueStats
	var did job.Activity
	queues := slices.AppendSeq(slices.Collect(maps.Keys(stats)), maps.Keys(l.did)) // also those whose last job was removed within the step
	slices.Sort(queues)
	for _, queue := range slices.Compact(queues) {
		q := stats[queue]
		p.Queues = append(p.Queues, l.sample(queue, q, l.did[queue]))
		total.Add(q)
		did.Add(l.did[queue])
	}
	p.Total = l.sample("", total, did)
	if p.cut = len(p.Queues) > MaxQueues; p.cut {
		busy := func(s *Sample) int64 {
			return s.Did.Attempts + s.Did.Enqueued + int64(s.Stats.Waiting+s.Stats.Scheduled+s.Stats.Ready+s.Stats.Running+s.Stats.Dead)
		}
		slices.SortStableFunc(p.Queues, func(a, b Sample) int { return cmp.Compare(busy(&b), busy(&a)) })
		p.Queues = slices.Clone(p.Queues[:MaxQueues])
		slices.SortFunc(p.Queues, func(a, b Sample) int { return cmp.Compare(a.Queue, b.Queue) })
	}
	if len(l.points) < size {
		l.points = append(l.points, p)
		return
	}
	l.points[l.next] = p
	l.next = (l.next + 1) % size
}

// Points returns the newest points of a step, at most limit, oldest first. The caller does not change them. A step that is
// not kept has none.
func (h *History) Points(step time.Duration, limit int) []Point {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, size := range sizes {
		if size.step != step {
			continue
		}
		l := &h.levels[i]
		all := slices.Concat(l.points[l.next:], l.points[:l.next])
		return all[max(0, len(all)-limit):]
	}
	return nil
}
