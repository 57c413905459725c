package idempotency

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// GuardOptions are the settings of a guard. The zero value of a field is its default.
type GuardOptions struct {
	// Tenant and Operation are those of requests that name none.
	Tenant, Operation string
	// TTL is how long a settled record is kept: what comes later runs again. Default 24 h.
	TTL time.Duration
	// Lease is how long a claim is live without a renewal; renewals come at a third of it. Default 30 s, at least 10 ms.
	Lease time.Duration
	// Wait is how long a caller waits for a twin in flight before it gets ErrInFlight. Default 0: it does not wait.
	Wait time.Duration
	// MaxResult is the largest result that is kept, in bytes. Default 1 MiB.
	MaxResult int
	// ReplaySafe declares that the effect may happen twice without harm: a lapsed claim is taken over, and its effect run
	// again. Without it the outcome of a lapsed claim is unknown, and an operator decides.
	ReplaySafe bool
	// Policies are those under which callers come back with the same key. NewGuard refuses a TTL that is shorter than the
	// longest time that one of them can keep retrying.
	Policies []policy.Policy
	// Classify tells failures that are final (NonRetryable), and are kept, from those after which the next caller runs again.
	// Marks on the error count first. Default: only what is marked Permanent or Business is final.
	Classify classify.Classifier
	// Observer is told of every action. Default none.
	Observer observe.Observer
	// Journal takes every action before its answer is given. While it refuses, stored answers are not given out (ErrJournal);
	// what has been run keeps its result. Default none.
	Journal observe.Journal
}

const (
	defaultTTL       = 24 * time.Hour
	defaultLease     = 30 * time.Second
	leastLease       = 10 * time.Millisecond
	defaultMaxResult = 1 << 20

	// A caller that waits for a twin asks again after pauses that double between these, and when the twin's claim ends.
	firstLook   = 5 * time.Millisecond
	slowestLook = 250 * time.Millisecond
	// patience bounds what is done in passing: giving back a claim whose begin failed, and sweeping.
	patience = time.Second
	// One in sweepEvery records that a guard writes is followed by a removal of up to sweepLimit expired ones, so that what
	// guards write does not pile up.
	sweepEvery = 256
	sweepLimit = 2 * sweepEvery
)

// Guard runs effects once per key. It is safe for concurrent use. In passing, it removes expired records from its store.
type Guard struct {
	store   Store
	options GuardOptions
	name    string // of this guard among all; with a number it names the owner of a claim
	claims  atomic.Uint64
	records atomic.Uint64
	watch   watch
}

// Request names what is to be done once.
type Request struct {
	// ID: an empty tenant or operation is the guard's.
	ID
	// Fingerprint is of what the caller asks for ([Fingerprint]); the same key with another one is ErrMismatch. Valid UTF-8.
	Fingerprint string
	// PolicyHash is kept with the record: the revision of the policy that the effect runs under.
	PolicyHash string
	// Work is whom events speak of. The guard fills in what is empty and it knows: key, tenant, operation and surface.
	Work observe.Work
}

// NewGuard returns a guard over a store. It fails on options out of range, and on a TTL that does not cover a policy.
func NewGuard(store Store, o GuardOptions) (*Guard, error) {
	if store == nil {
		return nil, errors.New("idempotency: NewGuard: the store is nil")
	}
	o.TTL = cmp.Or(o.TTL, defaultTTL)
	o.Lease = cmp.Or(o.Lease, defaultLease)
	o.MaxResult = cmp.Or(o.MaxResult, defaultMaxResult)
	switch {
	case o.TTL < time.Microsecond:
		return nil, fmt.Errorf("idempotency: ttl %s: must be more than 0", o.TTL)
	case o.Lease < leastLease:
		return nil, fmt.Errorf("idempotency: lease %s: must be at least %s", o.Lease, leastLease)
	case o.Wait < 0:
		return nil, fmt.Errorf("idempotency: wait %s: must not be negative", o.Wait)
	case o.MaxResult < 0:
		return nil, fmt.Errorf("idempotency: limit of results %d: must not be negative", o.MaxResult)
	}
	if err := errors.Join(checkPart("tenant", o.Tenant), checkPart("operation", o.Operation), checkTTL(o.TTL, o.Policies)); err != nil {
		return nil, err
	}
	name := make([]byte, 9)
	_, _ = rand.Read(name) // never fails
	g := &Guard{store: store, options: o, name: base64.RawURLEncoding.EncodeToString(name)}
	g.watch.after = o.Lease / 3
	return g, nil
}

// Do is [Guard.Run] for a key in the guard's own scope.
func (g *Guard) Do(ctx context.Context, key, fingerprint string, op func(context.Context) ([]byte, error)) ([]byte, error) {
	return g.Run(ctx, Request{ID: ID{Key: key}, Fingerprint: fingerprint}, op)
}

// Run runs op once for the request's key, on the caller's goroutine, and returns its result; if it has run before, Run
// returns the stored result and does not run it. Nil and empty results are told apart.
//
// The context of op ends, with a cause, when its claim is lost. An error of op is kept where it is final
// ([GuardOptions].Classify); after another one the next caller runs. If op panics, the panic goes on to the caller; nobody
// knows how far the effect came, so the claim is left to lapse, or given back if the guard is ReplaySafe.
//
// Where op did not run the error says why: *[KeyError], [ErrInFlight], [ErrMismatch], [ErrUnknown], *[FailureError],
// *[ResultError], *[StoreError], [ErrJournal], or the context's. Where it did, the error is op's own (joined with a
// *[RecordError] if that could not be recorded), or beside a good result a *[ResultError] or *[RecordError].
func (g *Guard) Run(ctx context.Context, r Request, op func(context.Context) ([]byte, error)) ([]byte, error) {
	return run(ctx, g, r, bytesCodec{}, op)
}

// Begin claims the request's key. A ticket either holds the right and the duty to run the effect and settle it, or, if
// Replayed, a stored result. All else is an error, as for [Guard.Run], and the effect must not run.
func (g *Guard) Begin(ctx context.Context, r Request) (*Ticket, error) {
	begun, end, err := g.begin(ctx, &r)
	if err != nil {
		return nil, err
	}
	return g.ticket(ctx, &r, &begun, end), nil
}

// begin comes to Run, with the time until which the claim is live for certain, or Replay. It completes the request.
func (g *Guard) begin(ctx context.Context, r *Request) (Begun, time.Time, error) {
	switch {
	case g == nil:
		return Begun{}, time.Time{}, errNoGuard
	case ctx == nil:
		return Begun{}, time.Time{}, errNoContext
	}
	r.Tenant = cmp.Or(r.Tenant, g.options.Tenant)
	r.Operation = cmp.Or(r.Operation, g.options.Operation)
	if err := r.check(); err != nil {
		return Begun{}, time.Time{}, classify.Permanent(err)
	}
	if ctx.Err() != nil {
		return Begun{}, time.Time{}, fmt.Errorf("idempotency: %s: %w", r.ID, context.Cause(ctx))
	}
	req := BeginRequest{
		ID: r.ID, Fingerprint: r.Fingerprint, Owner: g.owner(), Lease: g.options.Lease, ReplaySafe: g.options.ReplaySafe, PolicyHash: r.PolicyHash,
	}
	asked := time.Now()
	b, err := g.store.Begin(ctx, req)
	if err == nil && b.Verdict == Busy && g.options.Wait > 0 {
		b, asked, err = g.await(ctx, req, b, asked)
	}
	if err != nil {
		g.giveBack(ctx, req)
		return Begun{}, time.Time{}, &StoreError{r.ID, err}
	}
	if b.Verdict == Run {
		return b, asked.Add(g.options.Lease), nil
	}
	return b, time.Time{}, g.answer(ctx, r, &b)
}

func (r *Request) check() error {
	if err := CheckKey(r.Key); err != nil {
		return err
	}
	if err := checkPart("tenant", r.Tenant); err != nil {
		return err
	}
	if !utf8.ValidString(r.Fingerprint) { // stores in JSON would change it
		return &KeyError{"fingerprint", problemUTF8 + "; write a digest in hexadecimal"}
	}
	return checkPart("operation", r.Operation)
}

// owner is a name that no other claim has.
func (g *Guard) owner() string {
	var b [32]byte
	return string(strconv.AppendUint(append(append(b[:0], g.name...), '-'), g.claims.Add(1), 36))
}

// await asks again and again until the twin in flight has ended or the time is over.
func (g *Guard) await(ctx context.Context, req BeginRequest, b Begun, asked time.Time) (Begun, time.Time, error) {
	until := asked.Add(g.options.Wait)
	for pause := firstLook; b.Verdict == Busy; pause = min(2*pause, slowestLook) {
		left := time.Until(until)
		if left <= 0 {
			return b, asked, nil
		}
		if !sleep(ctx, min(pause, left, max(b.RetryAfter, time.Microsecond))) {
			return b, asked, nil
		}
		asked = time.Now()
		var err error
		if b, err = g.store.Begin(ctx, req); err != nil {
			return b, asked, err
		}
	}
	return b, asked, nil
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// giveBack releases the claim of a begin that failed, if it was granted all the same: otherwise the key would be blocked for
// a lease, and its outcome unknown from then on, although nothing has run. It does what it can in a short time.
func (g *Guard) giveBack(ctx context.Context, req BeginRequest) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(patience, g.options.Lease))
	defer cancel()
	r, err := g.store.Get(ctx, req.ID)
	if err != nil || r.Owner != req.Owner || r.State != InFlight {
		return
	}
	_ = g.store.Settle(ctx, r.Claim(), Settlement{State: Released, TTL: g.options.TTL})
}

// sweep removes expired records now and then, where the store does not do that by itself. It may fail; the next one goes on.
func (g *Guard) sweep(ctx context.Context) {
	admin, ok := g.store.(Admin)
	if g.records.Add(1)%sweepEvery != 0 || !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, _ = admin.Expire(ctx, sweepLimit)
}

// answer is what a caller gets whose effect must not run: nil for a stored result.
func (g *Guard) answer(ctx context.Context, r *Request, b *Begun) error {
	var err error
	action, detail := actionHit, ""
	switch b.Verdict {
	case Replay:
		if f := b.Record.Failure; f != nil && !b.Record.HasResult {
			detail = f.Type
			err = classify.Permanent(&ResultError{r.ID, *f})
		}
	case Refuse:
		f := Failure{}
		if b.Record.Failure != nil {
			f = *b.Record.Failure
		}
		detail = "failed"
		err = classify.Permanent(&FailureError{r.ID, f})
	case Busy:
		action = actionConflict
		err = classify.After(&InFlightError{r.ID, b.RetryAfter}, b.RetryAfter)
		if ctx.Err() != nil {
			err = errors.Join(err, context.Cause(ctx))
		}
	case Mismatch:
		action = actionMismatch
		err = classify.Permanent(fmt.Errorf("%w: %s", ErrMismatch, r.ID))
	default:
		action = actionUnknown
		err = classify.Permanent(fmt.Errorf("%w: %s", ErrUnknown, r.ID))
	}
	if refusal := g.tell(ctx, &r.Work, &b.Record, action, detail); refusal != nil {
		return errors.Join(err, refusal)
	}
	return err
}
