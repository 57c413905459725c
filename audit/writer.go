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
	"github.com/tenetdev/tenet/internal/canonical"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

const (
	mostEvents   = 1024     // in a batch
	deepQueue    = 256      // events that must wait before a batch is filled while another is being stored
	mostAhead    = 16 << 20 // bytes stored in a row in that way: the file cannot be rotated meanwhile
	mostGroups   = 4        // batches at a time: one is filled
	mostHeads    = 256      // in chain_opened: the latest chains; each holds the heads of those before it
	mostCounts   = 1024     // keys and policies counted at a time
	mostEdited   = 256      // cached revisions of policies that do not hold their own
	snapshotLife = time.Hour
)

// writer is the goroutine that turns queued items into batches. Two more goroutines seal and store the batches, so that one
// batch is filled while earlier ones are being stored. The first goroutine owns every field that is not atomic, except for
// the hashes of the chain, which belong to the sealing goroutine.
type writer struct {
	log  *Log
	sink appender
	stop chan struct{} // closed when nothing more will be queued
	done chan struct{} // closed when everything is stored or given up

	ctx    context.Context // of the sink's calls; cancelled when Close gives up
	cancel context.CancelFunc

	heads    []Head
	chain    chain
	progress progress
	*group   // being filled
	free     []*group
	sealing  chan *group
	storing  chan *group
	ended    chan *group // stored, or given up
	ahead    int         // bytes handed over since the segment was last checked

	segment   uint64
	held      map[string]bool // revisions with a snapshot in the segment
	heldSince time.Time
	revisions map[*policy.Policy]string

	counts     map[counted]uint64
	countSince time.Time
	lostTold   uint64

	stored, counted atomic.Uint64
	failing         atomic.Pointer[error]
	unstored        uint64 // events that Close gave up
}

// appender is the part of a [Sink] that the writer uses.
type appender interface {
	Append(ctx context.Context, entries []Entry) error
}

// counted is the key under which successes that are not recorded are counted.
type counted struct {
	surface, key, category string
	policy                 *policy.Policy
}

func newWriter(l *Log, sink appender, heads []Head) *writer {
	now := time.Now()
	w := &writer{
		log: l, sink: sink, stop: make(chan struct{}), done: make(chan struct{}), chain: newChain(uuidv7.New(now)),
		group: &group{}, sealing: make(chan *group, mostGroups), storing: make(chan *group, mostGroups), ended: make(chan *group, mostGroups),
		heads: heads[max(len(heads)-mostHeads, 0):], counts: map[counted]uint64{}, countSince: now,
	}
	for range mostGroups - 1 {
		w.free = append(w.free, &group{})
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	go w.seal()
	go w.store()
	return w
}

func (w *writer) run() {
	defer close(w.done)
	defer w.cancel()
	defer close(w.sealing)
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
	if len(w.free) < mostGroups-1 {
		return
	}
	if s, ok := w.sink.(Segmenter); ok {
		// Where this fails Append will, too; snapshots that were not needed do no harm.
		if n, err := s.Segment(w.ctx); err != nil || n != w.segment {
			w.segment, w.held = n, nil
		}
	}
	if time.Since(w.heldSince) > snapshotLife { // readers of a tail, and of what retention left, find them too
		w.held = nil
	}
	if w.held == nil {
		w.held, w.heldSince = map[string]bool{}, time.Now()
	}
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
		w.convert(it.observed)
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
			w.counts[counted{string(o.Work.Surface), o.Work.Key.String(), o.Work.Category.Code(), o.Policy}]++
			if w.counted.Add(1); len(w.counts) >= mostCounts {
				w.count()
			}
			return
		}
		w.next(o.Policy).decided(o, total, ended, denied)
	case observe.CallEnded:
		total := w.progress.end(o.Work.ID, func(a *observe.Event) { w.next(a.Policy).hedged(a) })
		w.next(o.Policy).panicked(o, max(total, len(o.Timeline.Attempts)))
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
	revision := w.revision(p)
	if !w.held[revision] {
		w.held[revision] = true
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

// revision returns the policy's revision, which it computes for a policy that a call edited.
func (w *writer) revision(p *policy.Policy) string {
	if p.Meta.Revision != "" {
		return p.Meta.Revision
	}
	if r, ok := w.revisions[p]; ok {
		return r
	}
	r, err := p.Revise()
	if err != nil { // a NaN, which policies of providers and executors do not have
		return ""
	}
	if w.revisions == nil || len(w.revisions) >= mostEdited {
		w.revisions = make(map[*policy.Policy]string, mostEdited)
	}
	w.revisions[p] = r
	return r
}

// snapshot returns an event that holds a policy.
func snapshot(t Type, p *policy.Policy, revision string) (Event, error) {
	raw, err := canonical.Marshal(*p)
	if err != nil {
		return Event{}, err
	}
	var e Event
	e.begin(t, time.Now())
	e.Key, e.Surface, e.Category = clean(p.Key.String()), string(p.Key.Surface()), clean(p.Category.Code())
	e.PolicyID, e.PolicyRevision, e.Policy, e.CoreVersion = clean(p.ID), revision, raw, CoreVersion
	return e, nil
}

// count adds an event for each count since the last time.
func (w *writer) count() {
	now := time.Now()
	for c, n := range w.counts {
		e := w.next(c.policy)
		e.begin(CallCount, now)
		e.Surface, e.Key, e.Category, e.Count, e.ElapsedNS = c.surface, clean(c.key), clean(c.category), n, Nanos(now.Sub(w.countSince))
		if c.policy != nil {
			e.PolicyID = clean(c.policy.ID)
		}
	}
	clear(w.counts)
	w.countSince = now
}

// close waits for the writer to end. If ctx ends first, close gives up the events that are not stored.
func (w *writer) close(ctx context.Context) error {
	select {
	case <-w.done:
	case <-ctx.Done():
		w.cancel()
		<-w.done
	}
	if w.unstored > 0 {
		return errors.Join(fmt.Errorf("audit: %d events were not stored when the log was closed", w.unstored), context.Cause(ctx))
	}
	return nil
}
