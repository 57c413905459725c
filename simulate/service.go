package simulate

import (
	"errors"
	"time"
)

// Errors of requests. All of them may be retried.
var (
	errFailed   = errors.New("the service failed")
	errRefused  = errors.New("the service refused the request")
	errTimedOut = errors.New("the request waited too long in the service's queue")
)

// service is a service at work.
//
//	arrive ──► line ──a slot and capacity──► served ──► response
//	   │         └──waited too long, or abandoned──► dropped
//	   └──down, or the line is full──► refused
type service struct {
	*simulation
	spec   Service
	faults []Fault
	random stream
	hits   stream // of the requests' own streams
	calls  []*caller

	line     []*request // from first, in the order of arrival
	first    int
	answered []*request // to be used again
	busy     int
	next     time.Duration // when the next request can begin, under a capacity
	waking   bool          // an event for next is under way
	windows  []ServiceSample
	total    ServiceTotals
}

// request is one attempt as the service sees it. The service uses it again once it is answered; the client must not touch it after
// that.
type request struct {
	service *service
	task    *task // of the client that waits for the response; nil once it has given up
	arrived time.Duration
	hits    stream // which faults hit it
	err     error
}

// arrive takes in a request of the running task. If the task has its answer when arrive returns, the request is no longer the task's.
func (s *service) arrive() *request {
	var r *request
	if n := len(s.answered); n > 0 {
		r, s.answered = s.answered[n-1], s.answered[:n-1]
	} else {
		r = &request{service: s}
	}
	r.task, r.arrived, r.hits, r.err = s.world.running, s.world.now, stream(s.hits.next()), nil
	r.task.answered = false
	s.count(r, func(t *ServiceCounts) { t.Requests++ })
	limit := s.spec.Queue.Limit
	if s.conditionOf(r).down || limit > 0 && s.waiting() >= limit && !s.free() {
		s.count(r, func(t *ServiceCounts) { t.Refused++ })
		s.answer(r, errRefused)
		return r
	}
	s.line = append(s.line, r)
	s.world.held += requestSize
	s.serve()
	if s.warm(s.world.now) {
		s.total.PeakQueue = max(s.total.PeakQueue, s.waiting())
	}
	return r
}

func (s *service) waiting() int { return len(s.line) - s.first }

// free reports whether a request could be served at once.
func (s *service) free() bool {
	if n := s.spec.Concurrency; n > 0 {
		if slowdown := s.slowdown(s.world.now); slowdown > 1 {
			n = max(int(float64(n)/slowdown), 1)
		}
		if s.busy >= n {
			return false
		}
	}
	return s.spec.Capacity == 0 || s.world.now >= s.next
}

// serve serves requests while it can.
func (s *service) serve() {
	for s.waiting() > 0 && s.free() {
		r := s.take()
		if q := s.spec.Queue; r.task == nil && q.DropAbandoned || q.MaxWait > 0 && s.world.now-r.arrived > q.MaxWait {
			s.count(r, func(t *ServiceCounts) { t.Dropped++ })
			s.answer(r, errTimedOut)
		} else {
			s.begin(r)
		}
	}
	if s.waiting() > 0 && s.spec.Capacity > 0 && !s.waking && s.world.now < s.next {
		s.waking = true
		s.world.at(s.next, s)
	}
}

// act serves the requests that have waited for capacity.
func (s *service) act() {
	s.waking = false
	s.serve()
}

// take removes the next request from the line.
func (s *service) take() *request {
	s.world.held -= requestSize
	i := s.first
	switch s.spec.Queue.Discipline {
	case LIFO:
		i = len(s.line) - 1
	case Random:
		i += s.random.below(s.waiting())
	}
	r := s.line[i]
	if i == s.first {
		s.line[i] = nil
		s.first++
	} else {
		last := len(s.line) - 1
		s.line[i], s.line[last] = s.line[last], nil
		s.line = s.line[:last]
	}
	if s.first > 1024 && s.first*2 > len(s.line) {
		n := copy(s.line, s.line[s.first:])
		clear(s.line[n:])
		s.line, s.first = s.line[:n], 0
	}
	return r
}

// begin serves a request.
func (s *service) begin(r *request) {
	now := s.world.now
	s.busy++
	if s.spec.Capacity > 0 {
		s.next = max(s.next, now) + nanoseconds(float64(time.Second)/s.spec.Capacity*s.slowdown(now))
	}
	c := s.conditionOf(r)
	latency := s.spec.Latency.draw(&s.random) + nanoseconds(float64(s.busy)*float64(s.spec.Latency.PerRequest))
	if c.latency != 1 {
		latency = nanoseconds(float64(latency) * c.latency)
	}
	if c.down || s.random.chance(c.errors) {
		r.err = errFailed
	}
	if len(s.calls) == 0 {
		s.world.at(now+latency, r)
		return
	}
	s.world.Go(func() {
		s.world.park(latency)
		for _, c := range s.calls {
			if r.err != nil || s.world.ended {
				break
			}
			if c.do() != nil {
				r.err = errFailed
			}
		}
		r.act()
	})
}

// act ends the service of a request.
func (r *request) act() {
	s := r.service
	if s.world.ended {
		return
	}
	s.busy--
	s.count(r, func(t *ServiceCounts) {
		t.Served++
		switch {
		case r.err != nil:
			t.Failed++
		case r.task == nil:
			t.Wasted++
		}
	})
	s.answer(r, r.err)
	s.serve()
}

// answer sends the response to the client, if it still waits.
func (s *service) answer(r *request, err error) {
	if t := r.task; t != nil {
		t.answered, t.response = true, err
		if t != s.world.running {
			s.world.resume(t)
		}
	}
	s.answered = append(s.answered, r)
}

// count counts in the current sample and, if the request arrived after the warm-up, in the totals.
func (s *service) count(r *request, add func(*ServiceCounts)) {
	if i := s.sample(); i < len(s.windows) {
		add(&s.windows[i].ServiceCounts)
	}
	if s.warm(r.arrived) {
		add(&s.total.ServiceCounts)
	}
}
