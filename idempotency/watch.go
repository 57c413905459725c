package idempotency

import (
	"sync"
	"time"
)

// watch waits for the first renewal of all claims of a guard with a single timer: most effects end before their first renewal
// is due, and a timer for each would cost more than the rest of the guard. The leases of a guard are equally long, so claims
// become due in about the order in which they come. When the last claim leaves, the timer is not stopped, but it is not set again.
type watch struct {
	mu          sync.Mutex // guards all below; never held together with a ticket's
	after       time.Duration
	first, last *Ticket     // in the order in which they are due
	timer       *time.Timer // for the first, or one that has left; nil before the first
	set         bool
}

// watched is a ticket's place in the list.
type watched struct {
	in         bool
	due        time.Time
	prev, next *Ticket
}

// add adds a claim that was asked for at a time.
func (w *watch) add(t *Ticket, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	due := asked.Add(w.after)
	prev := w.last
	for prev != nil && prev.watched.due.After(due) { // the store's answer took long
		prev = prev.watched.prev
	}
	next := w.first
	if prev != nil {
		next, prev.watched.next = prev.watched.next, t
	} else {
		w.first = t
	}
	if next != nil {
		next.watched.prev = t
	} else {
		w.last = t
	}
	t.watched = watched{in: true, due: due, prev: prev, next: next}
	if !w.set || prev == nil && next != nil {
		w.wake(due)
	}
}

// wake sets the timer.
func (w *watch) wake(at time.Time) {
	w.set = true
	if w.timer == nil {
		w.timer = time.AfterFunc(time.Until(at), w.look)
		return
	}
	w.timer.Reset(time.Until(at))
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
		w.wake(w.first.watched.due)
	}
}
