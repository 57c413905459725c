package job

import (
	"maps"
	"slices"
	"sync"
)

// slots counts the running jobs of each queue and holds their limits.
type slots struct {
	others bool // queues of the store are served too

	mu     sync.Mutex
	own    map[string]int // sizes by options
	stored map[string]int // sizes by the store, which go before
	queues map[string]*queue
}

// queue is a queue's number of slots and of running jobs. Its size is 0 once the worker no longer serves it; it is dropped
// when its last job ends.
type queue struct{ size, busy int }

// set changes the queues to serve. Running jobs continue if their queue is gone or has become smaller.
func (s *slots) set(concurrency map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = maps.Clone(concurrency)
	s.resize()
}

// override changes the sizes that the store holds, and reports whether that changes what is served.
func (s *slots) override(concurrency map[string]int) bool {
	before := s.sizes()
	s.mu.Lock()
	s.stored = concurrency
	s.resize()
	s.mu.Unlock()
	return !maps.Equal(before, s.sizes())
}

// resize gives the queues their sizes. The caller holds mu.
func (s *slots) resize() {
	if s.queues == nil {
		s.queues = map[string]*queue{}
	}
	for _, q := range s.queues {
		q.size = 0
	}
	for name, size := range s.own {
		if size < 1 {
			size = DefaultConcurrency
		}
		s.queue(name).size = size
	}
	for name, size := range s.stored {
		if _, own := s.own[name]; own || s.others {
			s.queue(name).size = size
		}
	}
	maps.DeleteFunc(s.queues, func(_ string, q *queue) bool { return q.size == 0 && q.busy == 0 })
}

// sizes returns the size of each queue that is served.
func (s *slots) sizes() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sizes := map[string]int{}
	for name, q := range s.queues {
		if q.size > 0 {
			sizes[name] = q.size
		}
	}
	return sizes
}

// queue finds or adds a queue. The caller holds mu.
func (s *slots) queue(name string) *queue {
	q := s.queues[name]
	if q == nil {
		q = &queue{}
		s.queues[name] = q
	}
	return q
}

// take takes a slot for a claimed job, even if set has removed its queue during the claim.
func (s *slots) take(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue(name).busy++
}

// give returns a slot.
func (s *slots) give(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q.busy--; q.busy == 0 && q.size == 0 {
		delete(s.queues, name)
	}
}

// free lists the queues with free slots, by name.
func (s *slots) free() []Slots {
	s.mu.Lock()
	defer s.mu.Unlock()
	var free []Slots
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		if q := s.queues[name]; q.busy < q.size {
			free = append(free, Slots{Queue: name, Free: q.size - q.busy})
		}
	}
	return free
}

// served lists the queues that the worker serves, by name.
func (s *slots) served() []string {
	return slices.Sorted(maps.Keys(s.sizes()))
}
