package audit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/groupcommit"
	"github.com/tenetdev/tenet/internal/wait"
)

const (
	mostEvents   = 1024             // in a batch
	mostBatches  = 4                // at a time: one is filled
	deepQueue    = 256              // events that must wait before a batch is filled while another is being stored
	mostAhead    = 16 << 20         // bytes stored in a row in that way: the file cannot be rotated meanwhile
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

// lane is the way of batches from the writer to the sink and back. Two goroutines seal and store them. The writer owns free,
// ahead and sealing.
type lane struct {
	free    []*group
	ahead   int // bytes handed over since the lane was last empty
	sealing chan *group
	storing chan *group
	ended   chan *group // stored or given up
	running sync.WaitGroup
}

func (l *lane) start(s *storer) {
	for range mostBatches {
		l.free = append(l.free, &group{})
	}
	l.sealing, l.storing, l.ended = make(chan *group, mostBatches), make(chan *group, mostBatches), make(chan *group, mostBatches)
	l.running.Go(l.seal)
	l.running.Go(func() { s.run(l.storing, l.ended) })
}

// stop ends the goroutines. The lane must be empty.
func (l *lane) stop() {
	close(l.sealing)
	l.running.Wait()
}

// take returns a free batch. There must be one.
func (l *lane) take() *group {
	last := len(l.free) - 1
	b := l.free[last]
	l.free = l.free[:last]
	return b
}

// empty reports whether no batch is on its way, that is, every batch but the writer's own is free.
func (l *lane) empty() bool { return len(l.free) == mostBatches-1 }

// seal makes entries of batches, whose buffers have stopped growing.
func (l *lane) seal() {
	defer close(l.storing)
	sealer := newSealer()
	for b := range l.sealing {
		start := 0
		for i, line := range b.lines {
			e := &b.events[i]
			sealer.seal(b.encoder.b, start, line, e)
			b.entries = append(b.entries, Entry{Event: e, Line: b.encoder.b[start:line.end:line.end]})
			start = line.end
		}
		l.storing <- b
	}
}

// storer passes batches to the sink.
type storer struct {
	sink    appender
	report  func(detail string)
	ctx     context.Context // of the sink's calls; cancelled when Close gives up
	cancel  context.CancelFunc
	stored  atomic.Uint64         // events
	failing atomic.Pointer[error] // the sink's last error; nil while it stores
}

// appender is the part of a [Sink] that the storer uses.
type appender interface {
	Append(ctx context.Context, entries []Entry) error
}

// run stores one batch after another. After it has given up one it stores no more, because the chain would have a gap.
func (s *storer) run(storing <-chan *group, ended chan<- *group) {
	var gaveUp error
	for b := range storing {
		if gaveUp == nil && len(b.entries) > 0 {
			gaveUp = s.append(b.entries)
		}
		b.err = gaveUp
		ended <- b
	}
}

func newBackoff() *wait.Backoff { return &wait.Backoff{Min: firstBackoff, Max: lastBackoff} }

// append passes entries to the sink until the sink has stored them. Entries are sealed once: an append with an unknown
// result is repeated unchanged.
func (s *storer) append(entries []Entry) error {
	for backoff := newBackoff(); ; {
		err := appendOnce(s.ctx, s.sink, entries)
		if err == nil {
			s.stored.Add(uint64(len(entries)))
			s.failing.Store(nil)
			return nil
		}
		if s.failing.Swap(&err) == nil {
			s.report("the sink fails: " + err.Error())
		}
		if backoff.Wait(s.ctx) != nil {
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
