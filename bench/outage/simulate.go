package outage

import (
	"container/heap"
	"math"
	"time"
)

// Parameters of the simulation.
const (
	Duration    = time.Minute           // time in which calls arrive
	Latency     = 50 * time.Millisecond // duration of an attempt
	MaxAttempts = 3
)

// Cell is one combination of conditions.
type Cell struct {
	Load    int     // calls per second
	Failure float64 // share of the attempts that fail
	Backoff time.Duration
}

// Outcome is the result of the calls of a cell.
type Outcome struct {
	Calls, Attempts, Succeeded int
	// Excess is the highest value that extra attempts − Ratio · calls ever had, counted when a retry is allowed.
	Excess float64
}

// PerCall is the number of attempts per call.
func (o Outcome) PerCall() float64 { return float64(o.Attempts) / float64(o.Calls) }

// Success is the share of calls that succeeded.
func (o Outcome) Success() float64 { return float64(o.Succeeded) / float64(o.Calls) }

type eventKind int

const (
	arrived eventKind = iota
	ended             // an attempt
	waited            // a backoff has ended
)

type event struct {
	at      time.Duration
	order   int // order among events of the same time
	kind    eventKind
	call    int
	attempt int // from 0
}

// world is a simulation in progress.
type world struct {
	cell    Cell
	budget  Budget
	now     time.Duration
	events  queue
	pushed  int
	extra   int
	outcome Outcome
}

// simulate runs a cell with the budget at index which.
func simulate(cell Cell, which int) Outcome {
	w := &world{cell: cell}
	w.budget = budgets(func() time.Duration { return w.now })[which]
	w.arrive(0)
	for len(w.events) > 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		switch e.kind {
		case arrived:
			w.outcome.Calls++
			w.budget.Start()
			w.attempt(e.call, 0)
			w.arrive(e.call + 1)
		case ended:
			w.end(e.call, e.attempt)
		case waited:
			w.resume(e.call, e.attempt)
		}
	}
	return w.outcome
}

// arrive schedules a call, an exponentially distributed time after the one before it.
func (w *world) arrive(call int) {
	gap := -math.Log(1-luck(call, -1)) / float64(w.cell.Load)
	if at := w.now + time.Duration(gap*float64(time.Second)); at < Duration {
		w.push(event{at: at, kind: arrived, call: call})
	}
}

func (w *world) attempt(call, attempt int) {
	w.outcome.Attempts++
	w.push(event{at: w.now + Latency, kind: ended, call: call, attempt: attempt})
}

// end decides what follows an attempt.
func (w *world) end(call, attempt int) {
	ok := luck(call, attempt) >= w.cell.Failure
	w.budget.Ended(attempt, ok)
	switch {
	case ok:
		w.outcome.Succeeded++
		w.budget.Finish()
	case attempt+1 == MaxAttempts, !w.budget.AfterWait && !w.allow(attempt+1):
		w.budget.Finish()
	default:
		w.push(event{at: w.now + w.cell.Backoff, kind: waited, call: call, attempt: attempt + 1})
	}
}

// resume makes an attempt after its backoff.
func (w *world) resume(call, attempt int) {
	if w.budget.AfterWait && !w.allow(attempt) {
		w.budget.Finish()
		return
	}
	w.attempt(call, attempt)
}

func (w *world) allow(attempt int) bool {
	if !w.budget.Allow(w.now, attempt) {
		return false
	}
	w.extra++
	w.outcome.Excess = max(w.outcome.Excess, float64(w.extra)-Ratio*float64(w.outcome.Calls))
	return true
}

func (w *world) push(e event) {
	w.pushed++
	e.order = w.pushed
	heap.Push(&w.events, e)
}

// luck is a number in [0, 1) that depends on call and attempt only (SplitMix64: Steele, Lea and Flood, 2014).
func luck(call, attempt int) float64 {
	z := uint64(call*(MaxAttempts+1)+attempt+2) * 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}

// queue is a heap of events by time.
type queue []event

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if q[i].at != q[j].at {
		return q[i].at < q[j].at
	}
	return q[i].order < q[j].order
}
func (q *queue) Push(e any) { *q = append(*q, e.(event)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}
