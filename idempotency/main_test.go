package idempotency_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("connection refused")

// faulty is a store in memory whose operations can fail, hang or stall.
type faulty struct {
	*memory.Idempotency
	mu      sync.Mutex
	begin   func() error // before the operation; nil is none
	after   func() error // after a begin
	renew   func() error
	settle  func() error
	settled func() error // after a settlement
	get     func() error
	late    bool   // the next begin fails, and is written when the one after it comes
	pending func() // that write
	calls   map[string]int
}

func (f *faulty) fault(what string, fault func() error) error {
	f.mu.Lock()
	f.calls[what]++
	f.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault()
}

func (f *faulty) count(what string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[what]
}

func (f *faulty) Begin(ctx context.Context, r idempotency.BeginRequest) (idempotency.Begun, error) {
	if err := f.fault("begin", f.begin); err != nil {
		return idempotency.Begun{}, err
	}
	if f.late {
		f.late, f.pending = false, func() { _, _ = f.Idempotency.Begin(context.WithoutCancel(ctx), r) }
		return idempotency.Begun{}, errDown
	}
	if f.pending != nil {
		f.pending()
		f.pending = nil
	}
	b, err := f.Idempotency.Begin(ctx, r)
	if f.after != nil && err == nil {
		if err := f.after(); err != nil {
			return idempotency.Begun{}, err
		}
	}
	return b, err
}

func (f *faulty) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	if err := f.fault("renew", f.renew); err != nil {
		return err
	}
	return f.Idempotency.Renew(ctx, c, lease)
}

func (f *faulty) Settle(ctx context.Context, c idempotency.Claim, s idempotency.Settlement) error {
	if err := f.fault("settle", f.settle); err != nil {
		return err
	}
	err := f.Idempotency.Settle(ctx, c, s)
	if f.settled != nil && err == nil {
		return f.settled()
	}
	return err
}

func (f *faulty) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	if err := f.fault("get", f.get); err != nil {
		return idempotency.Record{}, err
	}
	return f.Idempotency.Get(ctx, id)
}

func (f *faulty) Expire(ctx context.Context, limit int) (int, error) {
	_ = f.fault("expire", nil)
	return f.Idempotency.Expire(ctx, limit)
}

// bench is a guard with its store and a record of effects and events.
type bench struct {
	*testing.T
	*idempotency.Guard
	store   *faulty
	effects atomic.Int64
	mu      sync.Mutex
	events  []*observe.Event
}

func newBench(t *testing.T, o idempotency.GuardOptions) *bench {
	t.Helper()
	db := memory.Open()
	t.Cleanup(func() { db.Close() })
	b := &bench{T: t, store: &faulty{Idempotency: db.Idempotency(), calls: map[string]int{}}}
	if o.Observer == nil {
		o.Observer = b
	}
	b.Guard = b.guard(o)
	return b
}

// guard makes another guard over the same store, like that of another process.
func (b *bench) guard(o idempotency.GuardOptions) *idempotency.Guard {
	b.Helper()
	g, err := idempotency.NewGuard(b.store, o)
	if err != nil {
		b.Fatal(err)
	}
	return g
}

func (b *bench) Observe(_ context.Context, e *observe.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
}

// actions returns the reported actions in order.
func (b *bench) actions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []string{}
	for _, e := range b.events {
		if e.Idempotency != nil {
			list = append(list, e.Idempotency.Action)
		}
	}
	return list
}

// requestOf makes a request with the fingerprint of most tests.
func requestOf(key string) idempotency.Request {
	return idempotency.Request{Key: key, Fingerprint: "f"}
}

// effect counts itself and returns a result.
func (b *bench) effect(result string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		b.effects.Add(1)
		return []byte(result), nil
	}
}

// fails counts itself and returns an error.
func (b *bench) fails(err error) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		b.effects.Add(1)
		return nil, err
	}
}

// lasting counts itself and takes some time, or ends early with its context.
func (b *bench) lasting(d time.Duration) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		b.effects.Add(1)
		select {
		case <-time.After(d):
			return []byte("late"), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ran checks the number of effects.
func (b *bench) ran(want int64) {
	b.Helper()
	if got := b.effects.Load(); got != want {
		b.Fatalf("%d effects, want %d", got, want)
	}
}

// gets checks a result.
func (b *bench) gets(want string) func([]byte, error) {
	b.Helper()
	return func(got []byte, err error) {
		b.Helper()
		if err != nil || string(got) != want {
			b.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
}

// refused checks an error.
func (b *bench) refused(want error) func([]byte, error) {
	b.Helper()
	return func(got []byte, err error) {
		b.Helper()
		if !errors.Is(err, want) || got != nil {
			b.Fatalf("got %q, %v; want %v", got, err, want)
		}
	}
}

// record returns the record of a key.
func (b *bench) record(key string) idempotency.Record {
	b.Helper()
	r, err := b.store.Idempotency.Get(b.Context(), idempotency.ID{Key: key})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// virtual runs a test in virtual time with a guard.
func virtual(t *testing.T, o idempotency.GuardOptions, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newBench(t, o)) })
}
