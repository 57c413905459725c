package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/groupcommit"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// Mode says what a [Log] promises to its callers.
type Mode string

// The modes.
const (
	// FailClosed: a decision is stored by the sink before the work goes on. Where that takes longer than the timeout, the
	// journal refuses, and nothing further is started.
	FailClosed Mode = "fail_closed"
	// Outbox: a decision is stored in a local durable outbox before the work goes on, and forwarded to the sink in the
	// background, also after a restart. The outbox grows while the sink is down.
	Outbox Mode = "outbox"
	// Buffered: callers wait for nothing. Events are kept in memory until they are stored. Those that find the buffer full are
	// lost, counted and reported; those in it when the process dies are lost.
	Buffered Mode = "buffered"
)

// Errors of a Log.
var (
	ErrClosed  = errors.New("audit: the log is closed")
	ErrFull    = errors.New("audit: the buffer is full; the event is lost and counted")
	ErrTimeout = errors.New("audit: not stored in time")
	ErrLocked  = errors.New("another process is writing here")
)

// Options of a [Log]. The zero value is a log that fails closed and keeps everything.
type Options struct {
	// Mode says when a decision counts as recorded. Default FailClosed.
	Mode Mode
	// Buffer is how many events may wait for the writer. Default 65,536. In FailClosed and Outbox mode callers wait for room;
	// in Buffered mode events without room are lost.
	Buffer int
	// Sample is the share of work that is recorded one by one where it succeeded with its first attempt; the rest is counted.
	// 0 and 1 record all, a negative value none.
	Sample float64
	// Redact is applied before events are hashed.
	Redact Redaction
	// Outbox is the directory of the outbox; only for Outbox mode, where it is required. Only one process may use it.
	Outbox string
	// Timeout bounds how long a caller waits for an event to be stored. Default 5 s.
	Timeout time.Duration
	// CountInterval is how often successes that were not recorded are counted. Default 1 minute.
	CountInterval time.Duration
	// Reports gets an event (observe.Reported, audit_unavailable) when the sink begins to fail and when events were lost. It
	// must not be the log itself. May be nil.
	Reports observe.Observer
}

func (o Options) withDefaults() (Options, error) {
	o.Mode = cmp.Or(o.Mode, FailClosed)
	o.Buffer = cmp.Or(max(o.Buffer, 0), 1<<16)
	o.Timeout = cmp.Or(max(o.Timeout, 0), 5*time.Second)
	o.CountInterval = cmp.Or(max(o.CountInterval, 0), time.Minute)
	switch {
	case o.Mode != FailClosed && o.Mode != Outbox && o.Mode != Buffered:
		return o, fmt.Errorf("audit: mode %q: want fail_closed, outbox or buffered", o.Mode)
	case (o.Mode == Outbox) != (o.Outbox != ""):
		return o, fmt.Errorf("audit: mode %s with outbox %q: outbox mode needs a directory, and no other takes one", o.Mode, o.Outbox)
	}
	return o, o.Redact.check()
}

// Log records in a sink the events that reach observers and journals, and the actions of operators. It is an [observe.Observer] and an
// [observe.Journal]; set it as both, so that a decision is on record before it takes effect. A decision that comes both
// ways is recorded once, unless thousands of others arrive in between. As an Observer alone it cannot hold work up before a
// decision takes effect, whatever the mode.
//
// A Log is the one writer of its own chain. It is safe for concurrent use.
type Log struct {
	options   Options
	queue     chan item
	journaled journaled
	writer    *writer
	outbox    *outbox // nil in other modes

	// closing releases those who wait for room. closed is set, under the lock, when nothing can be queued any more.
	closing   chan struct{}
	closeOnce sync.Once
	mu        sync.RWMutex
	closed    bool

	lost atomic.Uint64
}

// item is what waits for the writer.
type item struct {
	observed *observe.Event
	event    *Event              // recorded by a method of the Log
	ticket   *groupcommit.Ticket // of whoever waits; nil where nobody does
	flush    bool
}

// Open starts a log over a sink. It asks the sink for the heads of the chains already there; a sink that cannot answer is
// an error, except in Outbox mode, which is made for that. The caller closes the log before the sink.
func Open(ctx context.Context, sink Sink, o Options) (*Log, error) {
	if sink == nil {
		return nil, errors.New("audit: Open: the sink is nil")
	}
	if ctx == nil {
		return nil, errors.New("audit: Open: the context is nil")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{options: o, queue: make(chan item, o.Buffer), closing: make(chan struct{})}
	var heads []Head
	var to appender = sink
	if o.Mode == Outbox {
		if l.outbox, heads, err = openOutbox(ctx, o.Outbox, sink, l.report); err != nil {
			return nil, err
		}
		to = l.outbox
	} else if heads, err = sink.Heads(ctx); err != nil {
		return nil, fmt.Errorf("audit: heads of the sink: %w", err)
	}
	l.writer = newWriter(l, to, heads)
	go l.writer.run()
	return l, nil
}

// Observe implements [observe.Observer]. In Buffered mode it takes less than a microsecond. In the other modes it waits, for
// Timeout at most, where the buffer is full, and for actions of idempotency guards until they are stored.
func (l *Log) Observe(ctx context.Context, o *observe.Event) {
	if !relevant(o) || paired(o) && l.journaled.take(o) {
		return
	}
	it := item{observed: o}
	if o.Type == observe.Idempotent && l.options.Mode != Buffered && l.writer.storer.failing.Load() == nil {
		it.ticket = groupcommit.NewTicket()
	}
	if err := l.push(context.WithoutCancel(ctx), it); err != nil {
		l.lost.Add(1)
		return
	}
	if it.ticket == nil {
		return
	}
	timer := time.NewTimer(l.options.Timeout)
	defer timer.Stop()
	select {
	case <-it.ticket.Done(): //nolint:errcheck // what failed has been counted
	case <-timer.C: // it is queued, and will be stored
	}
}

// Append implements [observe.Journal]: in FailClosed mode it returns when the sink has stored the event, in Outbox mode when
// the outbox has. It fails with [ErrTimeout], [ErrClosed] or, where the sink is failing already, as soon as the context ends;
// the decision must then not take effect. The event of a refused decision may still be stored later: where the sink had it in
// hand already, the error says so. A call_stopped event with reason audit_unavailable then follows it.
// In Buffered mode it never fails and waits for nothing.
func (l *Log) Append(ctx context.Context, o *observe.Event) error {
	if !relevant(o) {
		return nil
	}
	if l.options.Mode == Buffered {
		if err := l.push(ctx, item{observed: o}); err != nil {
			l.lost.Add(1)
		}
		l.journaled.add(o)
		return nil
	}
	t := groupcommit.NewTicket()
	err := l.wait(ctx, item{observed: o, ticket: t})
	if err == nil || t.Taken() {
		l.journaled.add(o)
	}
	return err
}

// relevant reports whether an event becomes part of the log.
func relevant(o *observe.Event) bool {
	switch o.Type {
	case observe.Decided:
		return o.Decision != nil
	case observe.AttemptEnded:
		return o.Attempt != nil && o.Work.ID != "" && addsDetail(o)
	case observe.CallEnded: // every other end is decided
		return o.Timeline != nil && o.Timeline.Reason == policy.ReasonPanicInOperation
	case observe.Idempotent:
		return o.Idempotency != nil
	case observe.JobMoved:
		return o.Transition != nil
	case observe.CircuitChanged:
		return o.Circuit != nil
	}
	return false
}

// push queues an item. In Buffered mode it does not wait.
func (l *Log) push(ctx context.Context, it item) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return ErrClosed
	}
	select {
	case l.queue <- it:
		return nil
	default:
	}
	if l.options.Mode == Buffered && !it.flush {
		return ErrFull
	}
	timer := time.NewTimer(l.options.Timeout)
	defer timer.Stop()
	select {
	case l.queue <- it:
		return nil
	case <-l.closing:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return l.late()
	}
}

// wait queues an item and waits until it is stored.
func (l *Log) wait(ctx context.Context, it item) error {
	timer := time.NewTimer(l.options.Timeout)
	defer timer.Stop()
	if err := l.push(ctx, it); err != nil {
		return err
	}
	ended := ctx.Done()
	if l.writer.storer.failing.Load() == nil { // it is a matter of milliseconds, and a refusal would hide why the caller went
		ended = nil
	}
	var err error
	select {
	case err := <-it.ticket.Done():
		return err
	case <-ended:
		err = context.Cause(ctx)
	case <-timer.C:
		err = l.late()
	}
	if !it.ticket.Withdraw() {
		err = fmt.Errorf("%w; the event may still be stored", err)
	}
	return err
}

// late is the error of a caller that has waited for too long.
func (l *Log) late() error {
	if cause := l.writer.storer.failing.Load(); cause != nil {
		return fmt.Errorf("%w: %w", ErrTimeout, *cause)
	}
	return ErrTimeout
}

// Flush waits until the sink has everything that was handed in before, counts of successes included. In Outbox mode too: it
// waits for the forwarding.
func (l *Log) Flush(ctx context.Context) error {
	it := item{flush: true, ticket: groupcommit.NewTicket()}
	for {
		err := l.push(ctx, it)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrTimeout) {
			return err
		}
	}
	select {
	case err := <-it.ticket.Done():
		if err != nil || l.outbox == nil {
			return err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return l.outbox.wait(ctx)
}

// Close stores what is still waiting and ends the log. When ctx ends first, what is not stored by then is lost, counted, and
// an error; in Outbox mode it is kept in the outbox for the next Open instead. The sink stays open.
func (l *Log) Close(ctx context.Context) error {
	l.closeOnce.Do(func() {
		close(l.closing)
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		close(l.writer.stop)
	})
	return errors.Join(l.writer.close(ctx), l.outbox.close(ctx))
}

// LogStats are the counts of a log since it was opened.
type LogStats struct {
	Stored  uint64 // events that the sink, or the outbox, has
	Counted uint64 // successes that were counted instead of recorded
	Lost    uint64 // events that found the buffer full, or were not stored when the log was closed
	Queued  int    // events that wait for the writer
	Failing error  // why the sink does not store at present; nil while it does
}

// Stats returns the counts so far.
func (l *Log) Stats() LogStats {
	s := LogStats{Stored: l.writer.storer.stored.Load(), Counted: l.writer.successes.total.Load(), Lost: l.lost.Load(), Queued: len(l.queue)}
	if err := l.writer.storer.failing.Load(); err != nil {
		s.Failing = *err
	}
	if l.outbox != nil {
		if err := l.outbox.failing.Load(); err != nil {
			s.Failing = errors.Join(s.Failing, *err)
		}
	}
	return s
}

// report tells operators.
func (l *Log) report(detail string) {
	if l.options.Reports == nil {
		return
	}
	defer func() { _ = recover() }() // an observer cannot fail the log
	l.options.Reports.Observe(context.Background(), &observe.Event{
		Type: observe.Reported, Time: time.Now(), Report: &observe.Report{Reason: policy.ReasonAuditUnavailable, Detail: detail},
	})
}
