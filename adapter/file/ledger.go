package file

import (
	"container/heap"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/pipeline"
)

// entry is a record that has not been acknowledged. It does not keep the payload: the source reads it again if necessary.
//
//	enter ──► out ──done──► settled
//	        again ▲ │ back
//	              waiting
type entry struct {
	source           *Source
	from, start, end int64
	line, lines      int
	problem          string // why the line is not a record, if the reader found that

	// Guarded by ledger.mu.
	state state
	count int // deliveries so far
	due   time.Time
}

type state uint8

const (
	out state = iota
	waiting
	settled
)

// ledger tracks the deliveries.
type ledger struct {
	most    int // limit of open
	changed wait.Signal

	mu      sync.Mutex
	open    int // entries that are not settled
	waiting byDue
}

func newLedger(most int) ledger { return ledger{most: most, changed: wait.NewSignal()} }

var (
	errForeign = errors.New("file: the delivery does not come from this source")
	errStale   = errors.New("file: the delivery was given back")
)

// enter counts an entry.
func (l *ledger) enter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
}

// again returns an entry that is due again, if there is one.
func (l *ledger) again() (*entry, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 || time.Now().Before(l.waiting[0].due) {
		return nil, 0
	}
	e := heap.Pop(&l.waiting).(*entry)
	e.state = out
	e.count++
	return e, e.count
}

// undo puts back an entry that could not be delivered.
func (l *ledger) undo(e *entry) {
	if e == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.count--
	e.state, e.due = waiting, time.Now()
	heap.Push(&l.waiting, e)
}

// settle removes an entry.
func (l *ledger) settle(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.state = settled
	l.open--
}

// done settles a delivery; fresh is false if it was settled before.
func (l *ledger) done(s *Source, d pipeline.Delivery) (e *entry, fresh bool, err error) {
	e, ok := d.Token.(*entry)
	if !ok || e.source != s {
		return nil, false, errForeign
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.count != d.Count || e.state == waiting:
		return nil, false, errStale
	case e.state == settled:
		return e, false, nil
	}
	e.state = settled
	if l.open--; l.open == 0 || l.open == l.most-1 {
		l.changed.Send()
	}
	return e, true, nil
}

// back schedules a delivery to be repeated.
func (l *ledger) back(s *Source, d pipeline.Delivery, delay time.Duration) error {
	e, ok := d.Token.(*entry)
	if !ok || e.source != s {
		return errForeign
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.count != d.Count || e.state != out {
		return errStale
	}
	e.state, e.due = waiting, time.Now().Add(delay)
	heap.Push(&l.waiting, e)
	l.changed.Send()
	return nil
}

// pending returns the number of entries that are not settled, and whether the limit is reached.
func (l *ledger) pending() (n int, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.open >= l.most
}

// watch returns the time until an entry is due, and a channel that signals changes.
func (l *ledger) watch() (time.Duration, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return math.MaxInt64, l.changed
	}
	return time.Until(l.waiting[0].due), l.changed
}

// byDue is a heap of entries.
type byDue []*entry

func (h byDue) Len() int           { return len(h) }
func (h byDue) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h byDue) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byDue) Push(x any)        { *h = append(*h, x.(*entry)) }
func (h *byDue) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
