package pipelinetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/pipeline"
)

// Queue is a queue, topic, table or file under test.
type Queue struct {
	// Put adds transactions at its end. Required.
	Put func(t *testing.T, list ...*pipeline.Transaction)
	// Source opens a handle, as another process would. Required. The suite closes it if it is an io.Closer.
	Source func(t *testing.T) pipeline.Source
	// Restart stops the server under the queue and starts it again; it returns when the server answers. Nil leaves out the
	// cases that need it.
	Restart func(t *testing.T)
}

// SourceOptions say how the suite opens a source, and what the source supports. The suite detects the optional interfaces Acker,
// Nacker and Extender itself.
type SourceOptions struct {
	// Open makes a new, empty queue. Required.
	Open func(t *testing.T) Queue
	// Make makes the i-th transaction, with an ID that is different for each. By default it has a binary payload, metadata,
	// correlation and parent, all of which must be delivered unchanged. Set it for a source that carries only payloads.
	Make func(i int) *pipeline.Transaction
	// Ordered says that first deliveries have the order in which the transactions were put.
	Ordered bool
	// Exclusive says that only one handle may be open at a time.
	Exclusive bool
	// Finite says that the source ends (ErrEnd) when it is empty, instead of waiting for more.
	Finite bool
	// Counts says that the source counts deliveries.
	Counts bool
	// Lease is the time after which a delivery that is neither acknowledged nor extended is delivered again, while its handle
	// is open. 0 means never.
	Lease time.Duration
	// Advance moves the server's clock forward by d for the rest of the case, if a test can set the clock. If it is nil, the
	// suite waits instead.
	Advance func(t *testing.T, d time.Duration)
	// Bubble runs a case in virtual time: synctest.Test for sources that take their time from package time and wait for nothing
	// outside the process. Nil runs in real time.
	Bubble func(t *testing.T, run func(t *testing.T))
	// Once says that a delivery is not delivered again after its handle was closed: for queues that end with their handle.
	Once bool
	// Delay is the delay with which the suite gives deliveries back. Default 1 s.
	Delay time.Duration
	// Early is how much earlier than its delay a source may deliver a transaction again. Default 0.
	Early time.Duration
	// Timeout is how long the suite waits for a delivery before it counts as lost. Default 15 s.
	Timeout time.Duration
	// Load is the number of transactions of cases under load. Default 200.
	Load int
}

// The defaults of sources and sinks.
const (
	defaultTimeout = 15 * time.Second
	defaultLoad    = 200
)

// Sources checks that a source keeps the contract of pipeline.Source and its optional interfaces.
func Sources(t *testing.T, o SourceOptions) {
	if o.Make == nil {
		o.Make = MakeFull
	}
	o.Delay, o.Timeout, o.Load = cmp.Or(o.Delay, time.Second), cmp.Or(o.Timeout, defaultTimeout), cmp.Or(o.Load, defaultLoad)
	if o.Bubble == nil {
		o.Bubble = func(t *testing.T, run func(t *testing.T)) { run(t) }
	}
	for _, c := range sourceCases(o) {
		t.Run(c.name, func(t *testing.T) {
			o.Bubble(t, func(t *testing.T) { c.run(&source{T: t, o: o, queue: o.Open(t), ctx: t.Context()}) })
		})
	}
}

type sourceCase struct {
	name string
	when bool
	run  func(s *source)
}

func sourceCases(o SourceOptions) (list []sourceCase) {
	for _, c := range []sourceCase{
		{"L11/transactions arrive unchanged", true, (*source).unchanged},
		{"L5/a fetch returns at most its maximum", true, (*source).maximum},
		{"L5/the lag counts what no reader has", true, (*source).lag},
		{"L5/order", o.Ordered, (*source).order},
		{"L6/a fetch from an empty queue returns nothing", true, (*source).empty},
		{"L6/a fetch waits for the first transaction", !o.Finite, (*source).waits},
		{"L9/a fetch ends with its context", !o.Finite, (*source).cancelled},
		{"L11/an acknowledged delivery does not return", true, (*source).acknowledged},
		{"L11/a repeated acknowledgement settles nothing else", true, (*source).acknowledgedTwice},
		{"L11/an unacknowledged delivery returns", !o.Once, (*source).unacknowledged},
		{"L11/a nacked delivery returns after its delay", true, (*source).nackedWithDelay},
		{"L11/a nacked delivery without a delay returns at once", true, (*source).nackedAtOnce},
		{"L11/a late settlement of a nacked delivery does not settle the next", true, (*source).nackedThenSettled},
		{"L7/two consumers get different deliveries", !o.Exclusive, (*source).twoConsumers},
		{"L7/a delivery returns when its lease expires", o.Lease > 0, (*source).leaseExpires},
		{"L7/a late settlement of an expired delivery does not settle the next", o.Lease > 0, (*source).expiredThenSettled},
		{"L7/an extended lease keeps its delivery", o.Lease > 0, (*source).leaseExtended},
		{"L4/every outcome is settled", true, (*source).outcomes},
		{"L4/a poison transaction does not block others", true, (*source).poison},
		{"L4/duplicates are delivered, but never run concurrently", true, (*source).duplicates},
		{"L9/a stopped consumer leaves unfinished transactions in the queue", !o.Once, (*source).stopped},
		{"L5/a server that restarts under load loses nothing", true, (*source).restarted},
	} {
		if c.when {
			list = append(list, c)
		}
	}
	return list
}

// MakeFull makes a transaction that uses every field, with a payload of all bytes.
func MakeFull(i int) *pipeline.Transaction {
	payload := make([]byte, 256, 300)
	for b := range payload {
		payload[b] = byte(b)
	}
	return pipeline.NewTransaction(fmt.Sprintf("transaction-%05d", i), append(payload, strconv.Itoa(i)...),
		pipeline.WithMetadata(map[string]string{"tenant_id": "tenant ä", "number": strconv.Itoa(i)}),
		pipeline.WithCorrelation(fmt.Sprintf("correlation-%d", i)), pipeline.WithParent(fmt.Sprintf("parent-%d", i)))
}

// MakePlain makes a transaction of an ID and a JSON object that has it as "id".
func MakePlain(i int) *pipeline.Transaction {
	id := fmt.Sprintf("transaction-%05d", i)
	return pipeline.NewTransaction(id, fmt.Appendf(nil, `{"id":%q,"number":%d}`, id, i))
}

// source is a queue under test.
type source struct {
	*testing.T
	o     SourceOptions
	queue Queue
	ctx   context.Context
}

// open opens a handle that is closed at the end of the case, or before by the function returned.
func (s *source) open() (pipeline.Source, func()) {
	s.Helper()
	opened := s.queue.Source(s.T)
	end := sync.OnceFunc(func() { closeNow(s.T, opened) })
	s.Cleanup(end)
	return opened, end
}

// put puts n transactions, from the first one on.
func (s *source) put(n int) (list []*pipeline.Transaction) {
	s.Helper()
	list = makeAll(n, s.o.Make)
	s.queue.Put(s.T, list...)
	return list
}

func makeAll(n int, one func(i int) *pipeline.Transaction) (list []*pipeline.Transaction) {
	for i := range n {
		list = append(list, one(i))
	}
	return list
}

// optional returns a source as what it may implement. It skips the case for one that does not.
func optional[T any](t *testing.T, from pipeline.Source) T {
	t.Helper()
	found, ok := from.(T)
	if !ok {
		t.Skipf("%T is not a %v", from, reflect.TypeFor[T]())
	}
	return found
}

// nack gives a delivery back. It skips the case for a source that takes none.
func (s *source) nack(from pipeline.Source, d pipeline.Delivery, delay time.Duration, cause error) {
	s.Helper()
	if err := optional[pipeline.Nacker](s.T, from).Nack(s.ctx, d, delay, cause); err != nil {
		s.Fatalf("Nack: %v", err)
	}
}

const fetchWait = 100 * time.Millisecond

// fetch collects n deliveries.
func (s *source) fetch(from pipeline.Source, n int) (list []pipeline.Delivery) {
	s.Helper()
	for end := time.Now().Add(s.o.Timeout); len(list) < n; {
		got, err := from.Fetch(s.ctx, pipeline.FetchRequest{Max: n - len(list), Wait: fetchWait})
		if list = append(list, got...); len(list) >= n {
			break
		}
		if err != nil && !errors.Is(err, pipeline.ErrEnd) {
			s.Fatalf("Fetch: %v", err)
		}
		if time.Now().After(end) || err != nil && s.o.Finite {
			s.Fatalf("%d of %d deliveries came: %v", len(list), n, err)
		}
	}
	if len(list) > n {
		s.Fatalf("%d deliveries where %d were asked for", len(list), n)
	}
	return list
}

// pass lets the lease of what was delivered run out, where that takes no waiting.
func (s *source) pass(d time.Duration) {
	s.Helper()
	if s.o.Advance != nil {
		s.o.Advance(s.T, d)
	}
}

// noneAfterLease checks that nothing comes once every lease would have run out.
func (s *source) noneAfterLease(from pipeline.Source) {
	s.Helper()
	if s.o.Advance != nil {
		s.o.Advance(s.T, s.o.Lease)
		s.none(from, 3*fetchWait)
		return
	}
	s.none(from, s.o.Lease+3*fetchWait)
}

// none checks that nothing comes for a time.
func (s *source) none(from pipeline.Source, during time.Duration) {
	s.Helper()
	for end := time.Now().Add(during); ; {
		got, err := from.Fetch(s.ctx, pipeline.FetchRequest{Max: 10, Wait: fetchWait})
		if len(got) > 0 {
			s.Fatalf("%s came, and nothing should", got[0].Transaction.ID())
		}
		if errors.Is(err, pipeline.ErrEnd) || time.Now().After(end) {
			return
		}
		if err != nil {
			s.Fatalf("Fetch: %v", err)
		}
	}
}

// ack acknowledges, where the source can.
func (s *source) ack(from pipeline.Source, done ...pipeline.Delivery) {
	s.Helper()
	a, ok := from.(pipeline.Acker)
	if !ok {
		return
	}
	for i, err := range a.Ack(s.ctx, done) {
		if err != nil {
			s.Errorf("Ack of %s: %v", done[i].Transaction.ID(), err) //nolint:gosec // the contract: as many errors as deliveries
		}
	}
}

// same checks that a transaction is what was put. It leaves room for metadata that the connector adds.
func same(t *testing.T, want, got *pipeline.Transaction) {
	t.Helper()
	if got.ID() != want.ID() || !bytes.Equal(got.Payload(), want.Payload()) {
		t.Errorf("%s with %q came out as %s with %q", want.ID(), want.Payload(), got.ID(), got.Payload())
	}
	if got.Correlation() != want.Correlation() || got.Parent() != want.Parent() {
		t.Errorf("%s: correlation %q and parent %q came out as %q and %q",
			want.ID(), want.Correlation(), want.Parent(), got.Correlation(), got.Parent())
	}
	for name, value := range want.AllMetadata() {
		if got.Metadata(name) != value {
			t.Errorf("%s: metadata %s=%q came out as %q", want.ID(), name, value, got.Metadata(name))
		}
	}
}
