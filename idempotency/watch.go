package idempotency

import (
	"sync"
	"time"
)

// watch waits for the first renewal of all claims of a guard with a single timer: most effects end before their first renewal
// is due, and a timer for each would cost more than the rest of the guard. The leases of a guard are equally long, so claims
// become due in the order of their begins. When the last claim leaves, the timer is not stopped, but it is not set again.
type watch struct {
	mu          sync.Mutex // guards all below; never held together with a ticket's
	after       time.Duration
	first, last *Ticket
	set         bool
}

// watched is a ticket's place in the list.
type watched struct {
	in         bool
	due        time.Time
	prev, next *Ticket
}

func (w *watch) add(t *Ticket, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.watched = watched{in: true, due: now.Add(w.after), prev: w.last}
	if w.last == nil {
		w.first = t
	} else {
		w.last.watched.next = t
	}
	w.last = t
	if !w.set {
		w.set = true
		time.AfterFunc(w.after, w.look)
	}
}

// remove removes a ticket from the list, if it is still there.
func (w *watch) remove(t *Ticket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.watched.in {
		w.unlink(t)
		t.brief = true
	}
}

func (w *watch) unlink(t *Ticket) {
	prev, next := t.watched.prev, t.watched.next
	if prev == nil {
		w.first = next
	} else {
		prev.watched.next = next
	}
	if next == nil {
		w.last = prev
	} else {
		next.watched.prev = prev
	}
	t.watched = watched{}
}

// look gives each ticket that is due its own timer, and sets the shared timer for the next one.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for w.first != nil && !now.Before(w.first.watched.due) {
		t := w.first
		w.unlink(t)
		time.AfterFunc(0, t.due)
	}
	if w.set = w.first != nil; w.set {
		time.AfterFunc(w.first.watched.due.Sub(now), w.look)
	}
}
