package audit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

const (
	mostHeads  = 256  // in chain_opened: the latest chains; each holds the heads of those before it
	mostCounts = 1024 // keys and policies counted at a time
)

// writer is the goroutine that turns queued items into batches of chained lines. Batches circulate, so that one is filled
// while others are being sealed and stored:
//
//	             writer                           lane                        storer
//	         ┌────────────┐ commit     ┌───────────────────────────┐        ┌────────┐
//	Log ────►│ take       ├───────────►│ sealing ─► seal ─► storing├───────►│ append ├─► Sink
//	  queue  │ encode     │◄───────────┤ free ◄──────────── ended  │◄───────┤        │
//	         └────────────┘ settle     └───────────────────────────┘        └────────┘
//
// The writer, the lane's seal and the storer are goroutines. A batch belongs to the goroutine that has received it, and every
// field to one goroutine, so there is no lock; other goroutines read only the atomic counts and failing.
type writer struct {
	log  *Log
	stop chan struct{} // closed when nothing more will be queued
	done chan struct{} // closed when everything is stored or given up

	*group    // being filled
	chain     chain
	heads     []Head // of the chains that were in the sink already
	progress  progress
	snapshots snapshots
	successes successes
	lane      lane
	storer    storer

	lostTold uint64
	unstored uint64 // events that Close gave up
}

// successes counts those that are not recorded one by one.
type successes struct {
	by    map[counted]uint64 // since the last call_count events
	since time.Time
	total atomic.Uint64 // since the log was opened
}

// counted is the key under which successes that are not recorded are counted.
type counted struct {
	surface     policy.Surface
	key, parent policy.Key
	category    policy.Category
	policy      *policy.Policy
}

// newWriter starts the goroutines of the lane; run stops them.
func newWriter(l *Log, sink appender, heads []Head) *writer {
	now := time.Now()
	w := &writer{
		log: l, stop: make(chan struct{}), done: make(chan struct{}), chain: chain{id: uuidv7.New(now)},
		heads:     heads[max(len(heads)-mostHeads, 0):],
		successes: successes{by: map[counted]uint64{}, since: now},
		storer:    storer{sink: sink, report: l.report},
	}
	w.storer.ctx, w.storer.cancel = context.WithCancel(context.Background())
	w.lane.start(&w.storer)
	w.group = w.lane.take()
	return w
}

func (w *writer) run() {
	defer close(w.done)
	defer w.end()
	ticker := time.NewTicker(w.log.options.CountInterval)
	defer ticker.Stop()
	for {
		select {
		case it := <-w.log.queue:
			w.begin()
			w.take(it)
			w.gather()
			w.drain()
		case <-ticker.C:
			w.begin()
			w.count()
		case <-w.stop:
			for len(w.log.queue) > 0 {
				w.begin()
				w.drain()
				w.commit()
			}
			w.begin()
			w.count()
			w.commit()
			return
		}
		w.commit()
	}
}

// end stops the goroutines of the lane.
func (w *writer) end() {
	w.lane.stop()
	w.storer.cancel()
}

// gather lets callers that the last batch released join this one, so that they need not wait for it to be stored.
func (w *writer) gather() {
	for before := -1; len(w.log.queue) > before && len(w.log.queue) < mostEvents; {
		before = len(w.log.queue)
		runtime.Gosched()
	}
}

// drain takes the queued items, up to a batch.
func (w *writer) drain() {
	for len(w.events) < mostEvents {
		select {
		case it := <-w.log.queue:
			w.take(it)
		default:
			return
		}
	}
}

// begin starts a batch. A batch that is filled while others are being stored is in the same segment.
func (w *writer) begin() {
	w.reset()
	if !w.lane.empty() {
		return
	}
	segment := w.snapshots.segment
	if s, ok := w.storer.sink.(Segmenter); ok {
		var err error
		if segment, err = s.Segment(w.storer.ctx); err != nil {
			w.snapshots.held = nil // Append will fail too; superfluous snapshots do no harm
		}
	}
	w.snapshots.begin(segment)
}

// take adds the events of an item to the batch.
func (w *writer) take(it item) {
	if it.ticket != nil {
		if !it.ticket.Take() {
			return
		}
		w.tickets = append(w.tickets, it.ticket)
	}
	switch {
	case it.flush:
		w.count()
		return
	case it.event != nil:
		*w.next(nil) = *it.event
	default:
		before := len(w.events)
		w.convert(it.observed)
		for i := before; i < len(w.events); i++ {
			w.log.options.Redact.finish(&w.events[i])
		}
	}
	w.encode()
	w.queued++
}

func (w *writer) convert(o *observe.Event) {
	switch o.Type {
	case observe.AttemptEnded:
		w.progress.add(o)
	case observe.Decided:
		group, ended, denied, total := w.progress.take(o)
		for _, a := range group {
			w.next(a.Policy).hedged(a)
		}
		if len(group) == 0 && w.skip(o, total) {
			w.successes.by[counted{o.Work.Surface, o.Work.Key, o.Work.Parent, o.Work.Category, o.Policy}]++
			if w.successes.total.Add(1); len(w.successes.by) >= mostCounts {
				w.count()
			}
			return
		}
		w.next(o.Policy).decided(o, total, ended, denied)
	case observe.CallEnded:
		total := w.progress.end(o.Work.ID, func(a *observe.Event) { w.next(a.Policy).hedged(a) })
		w.next(o.Policy).panicked(o, max(total, o.Timeline.Ran()))
	case observe.Idempotent:
		w.next(o.Policy).idempotent(o)
	case observe.JobMoved:
		w.next(o.Policy).moved(o)
	case observe.CircuitChanged:
		w.next(o.Policy).circuitChanged(o)
	}
}

// skip reports whether a decision is a success that is counted rather than recorded. Only first attempts are skipped, so
// that every recorded failure has its end on record.
func (w *writer) skip(o *observe.Event, total int) bool {
	sample := w.log.options.Sample
	if sample == 0 || sample >= 1 || o.Decision.Verdict.Action != decision.Done || total != 1 {
		return false
	}
	return sample < 0 || float64(decision.Seed(o.Work.ID)>>11)/(1<<53) >= sample
}

// next adds an empty event to the batch, after the events that must precede one under policy p.
func (w *writer) next(p *policy.Policy) *Event {
	if w.chain.seq == 0 && len(w.events) == 0 {
		opened := w.extend()
		opened.begin(ChainOpened, time.Now())
		opened.Heads, opened.CoreVersion = w.heads, CoreVersion
	}
	if p == nil {
		return w.extend()
	}
	revision := w.snapshots.revision(p)
	if w.snapshots.add(revision) {
		if s, err := snapshot(PolicySnapshot, p, revision); err == nil {
			*w.extend() = s
		}
	}
	e := w.extend()
	e.PolicyRevision = revision
	return e
}

// extend adds an empty event. The pointer is valid until the next event is added.
func (w *writer) extend() *Event {
	n := len(w.events)
	w.events = slices.Grow(w.events, 1)[:n+1]
	w.events[n] = Event{}
	return &w.events[n]
}

// count adds an event for each count since the last time.
func (w *writer) count() {
	now := time.Now()
	for c, n := range w.successes.by {
		e := w.next(c.policy)
		e.begin(CallCount, now)
		e.Surface, e.Key, e.Parent, e.Category = string(c.surface), clean(c.key.String()), clean(c.parent.String()), clean(c.category.Code())
		e.Count, e.ElapsedNS = n, Nanos(now.Sub(w.successes.since))
		if c.policy != nil {
			e.PolicyID = clean(c.policy.ID)
		}
	}
	clear(w.successes.by)
	w.successes.since = now
}

// encode makes lines of the events that were added since the last call, while they are in the processor's cache.
func (w *writer) encode() {
	for i := len(w.lines); i < len(w.events); i++ {
		w.lines = append(w.lines, w.chain.place(&w.encoder, &w.events[i]))
	}
}

// commit hands the batch to the lane and takes an empty one. If many items wait, the next batches are filled meanwhile; if
// few do, commit waits, so that the callers that this batch releases can join the next one.
func (w *writer) commit() {
	if lost := w.log.lost.Load(); lost > w.lostTold {
		e := w.next(nil)
		e.begin(CallCount, time.Now())
		e.Lost = lost - w.lostTold
		w.lost, w.lostTold = e.Lost, lost
	}
	w.encode()
	l := &w.lane
	l.sealing <- w.group
	if l.ahead += len(w.encoder.b); len(w.log.queue) < deepQueue || l.ahead > mostAhead {
		l.ahead = 0
		for len(l.free) < mostBatches {
			w.settle(<-l.ended)
		}
	}
	for len(l.free) == 0 || len(l.ended) > 0 {
		w.settle(<-l.ended)
	}
	w.group = l.take()
}

// settle reports the result of a batch to the callers that wait for it, and frees the batch.
func (w *writer) settle(b *group) {
	if b.err == nil {
		if b.lost > 0 {
			w.log.report(fmt.Sprintf("%d events were lost", b.lost))
		}
	} else {
		w.unstored += b.queued
		w.log.lost.Add(b.queued)
	}
	for i, t := range b.tickets {
		t.Settle(b.err)
		b.tickets[i] = nil
	}
	w.lane.free = append(w.lane.free, b)
}

// close waits for the writer to end. If ctx ends first, close gives up the events that are not stored.
func (w *writer) close(ctx context.Context) error {
	select {
	case <-w.done:
	case <-ctx.Done():
		w.storer.cancel()
		<-w.done
	}
	if w.unstored > 0 {
		cause := *w.storer.failing.Load() // a batch is given up only after the sink failed
		return errors.Join(fmt.Errorf("audit: %d events were not stored when the log was closed: %w", w.unstored, cause), context.Cause(ctx))
	}
	return nil
}
