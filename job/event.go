package job

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policy"
)

// Event is a transition that a worker has made: it has started a job, settled an attempt, or taken a job back whose lease had
// expired. An event without an ID only reports a loss.
type Event struct {
	// Position is the event's place in its store, where events are numbered from 1 without gaps. 0 in [Worker.Events].
	Position int64             `json:"position,omitempty"`
	Time     time.Time         `json:"time,omitzero"` // by the worker's clock
	ID       string            `json:"id,omitempty"`
	Type     string            `json:"type,omitempty"`
	Queue    string            `json:"queue,omitempty"`
	From     State             `json:"from,omitempty"`
	To       State             `json:"to,omitempty"`
	Reason   policy.Reason     `json:"reason,omitempty"`
	Attempts int               `json:"attempts,omitempty"` // made so far
	Error    string            `json:"error,omitempty"`    // at most 500 bytes of it
	Worker   string            `json:"worker,omitempty"`
	Meta     map[string]string `json:"meta,omitempty"`
	// Lost is how many events are missing before this one, because a reader or a store was too slow for them.
	Lost int64 `json:"lost,omitempty"`
}

// record returns the part of the job that an event knows, for filters.
func (e *Event) record() *Record {
	return &Record{ID: e.ID, Type: e.Type, Queue: e.Queue, State: e.To, Meta: e.Meta, LastError: e.Error}
}

// Events returns the transitions that the worker makes from now on: they wait in a buffer for at most the given number of
// events until they are read. Events for which the buffer has no room are lost, and the next event, which has no job,
// says how many. The worker never waits for a reader. The sequence ends with ctx or when the loop over it ends, and can be read
// once; ctx must end even if the sequence is not read. A buffer below 1 panics. Events is safe for concurrent use.
func (w *Worker) Events(ctx context.Context, buffer int) iter.Seq[Event] {
	argument.Need(ctx != nil, "job: Events: the context")
	if buffer < 1 {
		panic("job: Events: the buffer is below 1")
	}
	s := w.reporter.events.subscribe(buffer)
	stop := context.AfterFunc(ctx, func() { w.reporter.events.leave(s) })
	return func(yield func(Event) bool) {
		defer w.reporter.events.leave(s)
		defer stop()
		for ctx.Err() == nil {
			for _, e := range s.take() {
				if ctx.Err() != nil || !yield(e) {
					return
				}
			}
			select {
			case <-s.wake:
			case <-ctx.Done():
			}
		}
	}
}

// events passes the events of a worker on to its subscriptions.
type events struct {
	readers atomic.Int64 // spares the rest while there are none
	mu      sync.Mutex
	heard   map[*subscription]struct{}
}

// subscription holds the events that were not read yet.
type subscription struct {
	wake wait.Signal // there is something to take
	room int

	mu   sync.Mutex
	list []Event
	lost int64 // since the last of the list
}

func (h *events) subscribe(room int) *subscription {
	s := &subscription{wake: wait.NewSignal(), room: room}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.heard == nil {
		h.heard = map[*subscription]struct{}{}
	}
	h.heard[s] = struct{}{}
	h.readers.Store(int64(len(h.heard)))
	return s
}

func (h *events) leave(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.heard, s)
	h.readers.Store(int64(len(h.heard)))
}

func (h *events) add(e *Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.heard {
		s.add(e)
	}
}

func (s *subscription) add(e *Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) >= s.room {
		s.lost++
		return
	}
	s.list = append(s.list, *e) // take has emptied the list and reported what was lost before
	s.wake.Send()
}

// take returns the events that were not read yet, and reports losses after them.
func (s *subscription) take() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	if s.lost > 0 {
		list = append(list, Event{Time: time.Now(), Lost: s.lost})
		s.lost = 0
	}
	return list
}
