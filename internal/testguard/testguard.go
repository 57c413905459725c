package testguard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// Entrance is one way into a guard.
type Entrance struct {
	// Ask asks once for the effect of a call, in virtual time, and returns what its caller sees. It makes one attempt only. A
	// panic or the end of the goroutine may reach the caller of Ask.
	Ask func(ctx context.Context, t *testing.T, c Call) Answer
	// Results: the entrance stores the results of effects. NeedsResult: later callers need a result.
	Results, NeedsResult bool
	// Errors: the effect returns errors. An HTTP handler does not.
	Errors bool
}

// Call is a request for an effect.
type Call struct {
	Guard *idempotency.Guard
	Key   string
	// Op is the effect. Its request is the same in every call.
	Op func(context.Context) (string, error)
}

// Answer is what the caller of an entrance sees. A field that the entrance does not have is empty.
type Answer struct {
	OK         bool
	Result     string
	Reason     policy.Reason
	Status     int // of HTTP
	RetryAfter time.Duration
}

// scenario is a row of the table.
type scenario struct {
	name    string
	errors  bool // only for entrances whose effects return errors
	options idempotency.GuardOptions
	steps   []step
}

// step is one call, what is done before it, and what must be true after it.
type step struct {
	wait   time.Duration             // before the call
	before func(*idempotency.Record) // changes the record, as another process may
	broken func(*bench)              // breaks the store or the journal for this call
	ctx    func(context.Context) (context.Context, context.CancelFunc)
	key    string // "k" if empty
	op     func(*bench, context.Context) (string, error)

	want  Answer
	ran   bool
	state idempotency.State // "": there is no record
	kept  string            // the type of the record's failure, where the entrance keeps results
	needs *Answer           // instead of want, for an entrance that needs a result
}

// bench is what a scenario runs in.
type bench struct {
	*testing.T
	store *Store
	guard *idempotency.Guard
	ran   bool
	full  bool // the journal refuses everything
}

// Append implements observe.Journal.
func (b *bench) Append(context.Context, *observe.Event) error {
	if b.full {
		return ErrDown
	}
	return nil
}

// Run runs the table for an entrance.
func Run(t *testing.T, e Entrance) {
	t.Helper()
	for _, s := range table() {
		if s.errors && !e.Errors {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{T: t, store: NewStore()}
				o := s.options
				o.Lease, o.TTL, o.Journal = lease, ttl, b
				var err error
				if b.guard, err = idempotency.NewGuard(b.store, o); err != nil {
					t.Fatal(err)
				}
				for i, step := range s.steps {
					b.step(e, i+1, step)
				}
			})
		})
	}
}

func (b *bench) step(e Entrance, n int, s step) {
	b.Helper()
	time.Sleep(s.wait)
	if s.before != nil {
		b.store.Change(s.before)
	}
	if s.broken != nil {
		s.broken(b)
	}
	ctx, cancel := b.Context(), context.CancelFunc(func() {})
	if s.ctx != nil {
		ctx, cancel = s.ctx(ctx)
	}
	defer cancel()
	b.ran = false
	call := Call{Guard: b.guard, Key: s.key, Op: func(ctx context.Context) (string, error) {
		b.ran = true
		return s.op(b, ctx)
	}}
	if s.key == "" {
		call.Key = "k"
	}
	got := ask(ctx, b.T, e, call)
	b.full = false
	b.store.Fail(false, false)
	b.check(e, n, s, got)
}

// ask returns the zero answer if a panic, or the end of the goroutine, gets through the entrance.
func ask(ctx context.Context, t *testing.T, e Entrance, c Call) (got Answer) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		got = e.Ask(ctx, t, c)
	}()
	<-done
	return got
}

func (b *bench) check(e Entrance, n int, s step, got Answer) {
	b.Helper()
	want := s.want
	if s.needs != nil && e.NeedsResult {
		want = *s.needs
	}
	if got.OK != want.OK || b.ran != s.ran {
		b.Errorf("step %d: success %t, ran %t; want %t and %t (%+v)", n, got.OK, b.ran, want.OK, s.ran, got)
	}
	if got.OK && e.Results && got.Result != want.Result {
		b.Errorf("step %d: result %q, want %q", n, got.Result, want.Result)
	}
	if got.Reason != "" && want.Reason != "" && got.Reason != want.Reason {
		b.Errorf("step %d: reason %s, want %s", n, got.Reason, want.Reason)
	}
	if got.Status != 0 && got.Status != want.Status {
		b.Errorf("step %d: status %d, want %d", n, got.Status, want.Status)
	}
	if got.RetryAfter != 0 && got.RetryAfter != want.RetryAfter {
		b.Errorf("step %d: retry after %s, want %s", n, got.RetryAfter, want.RetryAfter)
	}
	records := b.store.Records()
	switch {
	case len(records) == 0 && s.state == "":
	case len(records) != 1 || records[0].State != s.state:
		b.Errorf("step %d: records %+v, want one that is %q", n, records, s.state)
	case e.Results && s.kept != "" && (records[0].Failure == nil || records[0].Failure.Type != s.kept):
		b.Errorf("step %d: the record's failure is %+v, want a %s", n, records[0].Failure, s.kept)
	}
}
