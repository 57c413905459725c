package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/internal/groupcommit"
	"github.com/tenetdev/tenet/internal/wait"
)

const (
	appendLimit  = 30 * time.Second // for a sink that does not answer
	firstBackoff = 10 * time.Millisecond
	lastBackoff  = time.Second
)

// group is a batch of events that are stored together.
type group struct {
	encoder encoder
	events  []Event
	lines   []line
	entries []Entry
	tickets []*groupcommit.Ticket
	queued  uint64 // items that came from callers
	lost    uint64 // losses that the batch reports
	err     error  // why the batch is not stored
}

func (b *group) reset() {
	b.encoder.b, b.events, b.lines, b.entries = b.encoder.b[:0], b.events[:0], b.lines[:0], b.entries[:0]
	b.tickets, b.queued, b.lost = b.tickets[:0], 0, 0
}

// commit hands the batch over to be sealed and stored. If many items wait, the next batches are filled meanwhile; if few do,
// commit waits, so that the callers that this batch releases can join the next one.
func (w *writer) commit() {
	if lost := w.log.lost.Load(); lost > w.lostTold {
		e := w.next(nil)
		e.begin(CallCount, time.Now())
		e.Lost = lost - w.lostTold
		w.lost, w.lostTold = e.Lost, lost
	}
	w.encode()
	w.sealing <- w.group
	if w.ahead += len(w.encoder.b); len(w.log.queue) < deepQueue || w.ahead > mostAhead {
		w.ahead = 0
		for len(w.free) < mostGroups {
			w.settle(<-w.ended)
		}
	}
	for len(w.free) == 0 || len(w.ended) > 0 {
		w.settle(<-w.ended)
	}
	last := len(w.free) - 1
	w.group, w.free = w.free[last], w.free[:last]
}

// settle reports the result of a batch to the callers that wait for it.
func (w *writer) settle(b *group) {
	if b.err == nil {
		w.stored.Add(uint64(len(b.events)))
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
	w.free = append(w.free, b)
}

// encode makes lines of the events that were added since the last call, while they are in the processor's cache.
func (w *writer) encode() {
	redact := !w.log.options.Redact.empty()
	for i := len(w.lines); i < len(w.events); i++ {
		e := &w.events[i]
		if redact {
			w.log.options.Redact.apply(e)
		}
		e.ExceptionMessage = shorten(e.ExceptionMessage, longestText)
		e.FinalExceptionMessage = shorten(e.FinalExceptionMessage, longestText)
		w.lines = append(w.lines, w.chain.place(&w.encoder, e))
	}
}

// seal makes entries of batches, whose buffers have stopped growing.
func (w *writer) seal() {
	defer close(w.storing)
	for b := range w.sealing {
		start := 0
		for i, l := range b.lines {
			e := &b.events[i]
			w.chain.seal(b.encoder.b, start, l, e)
			b.entries = append(b.entries, Entry{Event: e, Line: b.encoder.b[start:l.end:l.end]})
			start = l.end
		}
		w.storing <- b
	}
}

// store stores one batch after another. After it gave up one it stores no more, because the chain would have a gap.
func (w *writer) store() {
	var gaveUp error
	for b := range w.storing {
		if gaveUp == nil && len(b.entries) > 0 {
			gaveUp = w.append(b.entries)
		}
		b.err = gaveUp
		w.ended <- b
	}
}

func newBackoff() *wait.Backoff { return &wait.Backoff{Min: firstBackoff, Max: lastBackoff} }

// append passes entries to the sink until the sink has stored them. Entries are sealed once: an append with an unknown
// result is repeated unchanged.
func (w *writer) append(entries []Entry) error {
	for backoff := newBackoff(); ; {
		err := appendOnce(w.ctx, w.sink, entries)
		if err == nil {
			w.failing.Store(nil)
			return nil
		}
		if w.failing.Swap(&err) == nil {
			w.log.report("the sink fails: " + err.Error())
		}
		if backoff.Wait(w.ctx) != nil {
			return fmt.Errorf("%w; not stored: %w", ErrClosed, err)
		}
	}
}

// appendOnce bounds a call of the sink and turns a panic into an error.
func appendOnce(ctx context.Context, sink appender, entries []Entry) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("audit: panic in the sink: %v", v)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, appendLimit)
	defer cancel()
	return sink.Append(ctx, entries)
}
