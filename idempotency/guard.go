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
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// GuardOptions are the settings of a guard. The zero value of a field is its default.
type GuardOptions struct {
	// Tenant and Operation apply to requests that leave them empty.
	Tenant, Operation string
	// TTL is how long a settled record is kept. After that the key runs again. Default 24 h.
	TTL time.Duration
	// Lease is how long a claim is live without a renewal; the guard renews it every third of that time. Default 30 s, at
	// least 10 ms.
	Lease time.Duration
	// Wait is how long a caller waits for a claim in flight before it gets ErrInFlight. Default 0: it does not wait.
	Wait time.Duration
	// MaxResult is the largest result that is kept, in bytes. Default 1 MiB.
	MaxResult int
	// ReplaySafe declares that the effect may happen twice without harm: after a panic, and when a claim has lapsed, the next
	// caller runs it again. Without it the outcome is unknown then, and an operator decides.
	ReplaySafe bool
	// Policies are the policies under which callers retry with the same key. NewGuard refuses a TTL that is shorter than the
	// longest time for which one of them can keep retrying.
	Policies []policy.Policy
	// Classify decides which failures are final (NonRetryable): these are recorded, and after all others the next caller runs
	// again. Marks on the error take precedence. Default: only errors marked Permanent or Business are final.
	Classify classify.Classifier
	// Observer receives every action. Default none.
	Observer observe.Observer
	// Journal receives every action before its answer is given. While it refuses, answers are not given (ErrJournal), but an
	// effect that has run keeps its result. Default none.
	Journal observe.Journal
}

const (
	defaultTTL       = 24 * time.Hour
	defaultLease     = 30 * time.Second
	leastLease       = 10 * time.Millisecond
	defaultMaxResult = 1 << 20

	// A caller that waits for a claim in flight asks again after pauses that grow between these, and when the claim ends.
	firstLook   = 5 * time.Millisecond
	slowestLook = 250 * time.Millisecond
	// asideTimeout bounds incidental work: releasing a claim whose begin failed, and sweeping.
	asideTimeout = time.Second
	// After every sweepEvery records written, a guard removes up to sweepLimit expired ones, so that records do not pile up.
	sweepEvery = 256
	sweepLimit = 2 * sweepEvery
)

// Guard runs effects once per key. It is safe for concurrent use. From time to time it removes expired records from its
// store.
type Guard struct {
	store   Store
	options GuardOptions
	name    string // unique to this guard; with a number it names the owner of a claim
	claims  atomic.Uint64
	records atomic.Uint64
	watch   watch
}

// Request names an effect by its key, and describes the caller's request for it. Only the key is required.
type Request struct {
	// Key names the effect ([CheckKey]) in its scope, which is the tenant and the operation. If one of these is empty, it is
	// the guard's.
	Key, Tenant, Operation string
	// Fingerprint is the fingerprint of the caller's request ([Fingerprint]), valid UTF-8. The same key with another
	// fingerprint is refused with ErrMismatch.
	Fingerprint string
	// PolicyHash is kept with the record: the revision of the policy that the effect runs under.
	PolicyHash string
	// Work is the subject of the guard's events. The guard fills in empty keys, tenants, operations and surfaces.
	Work observe.Work
}

func (r *Request) id() ID { return ID{Tenant: r.Tenant, Operation: r.Operation, Key: r.Key} }

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

// Begin claims the request's key. It returns a ticket that either is Replayed and holds a stored result, or obliges the
// caller to run the effect and settle the ticket. Otherwise the error is a *[RefusedError], and the effect must not run.
func (g *Guard) Begin(ctx context.Context, r Request) (*Ticket, error) {
	begun, end, err := g.begin(ctx, &r)
	if err == nil && begun.Verdict == Replay && begun.Record.Failure != nil {
		err = begun.Record.withoutResult()
	}
	if err != nil {
		return nil, err
	}
	return g.ticket(ctx, &r, &begun, end), nil
}

// begin returns Run, with the time until which the claim is certain to be live, or Replay. It fills in the request's defaults.
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
		return Begun{}, time.Time{}, refuse(policy.ReasonIdempotencyBadKey, classify.Permanent(err))
	}
	if ctx.Err() != nil {
		return Begun{}, time.Time{}, refuse(unanswered(ctx), fmt.Errorf("idempotency: %s: %w", r.id(), context.Cause(ctx)))
	}
	req := BeginRequest{
		ID: r.id(), Fingerprint: r.Fingerprint, Owner: g.owner(), Lease: g.options.Lease, ReplaySafe: g.options.ReplaySafe, PolicyHash: r.PolicyHash,
	}
	asked := time.Now()
	b, err := g.store.Begin(ctx, req)
	if err == nil && b.Verdict == Busy && g.options.Wait > 0 {
		b, asked, err = g.await(ctx, req, b, asked)
	}
	if err != nil {
		g.giveBack(ctx, req)
		return Begun{}, time.Time{}, refuse(unanswered(ctx), &StoreError{req.ID, err})
	}
	if b.Verdict == Run {
		return b, asked.Add(g.options.Lease), nil
	}
	if refusal := g.answer(ctx, r, &b); refusal != nil {
		return b, time.Time{}, refusal
	}
	return b, time.Time{}, nil
}

// ReplaySafe reports whether the guard was made with [GuardOptions].ReplaySafe.
func (g *Guard) ReplaySafe() bool { return g.options.ReplaySafe }

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

// owner returns a name that no other claim has.
func (g *Guard) owner() string {
	var b [32]byte
	return string(strconv.AppendUint(append(append(b[:0], g.name...), '-'), g.claims.Add(1), 36))
}

// await polls the store until the claim in flight has ended or the guard's wait is over.
func (g *Guard) await(ctx context.Context, req BeginRequest, b Begun, asked time.Time) (Begun, time.Time, error) {
	until := asked.Add(g.options.Wait)
	for backoff := (wait.Backoff{Min: firstLook, Max: slowestLook}); b.Verdict == Busy; {
		left := time.Until(until)
		if left <= 0 {
			return b, asked, nil
		}
		if wait.For(ctx, min(backoff.Failed(), left, max(b.RetryAfter, time.Microsecond))) != nil {
			return b, asked, nil //nolint:nilerr // the claim is still in flight, which is the caller's answer
		}
		asked = time.Now()
		var err error
		if b, err = g.store.Begin(ctx, req); err != nil {
			return b, asked, err
		}
	}
	return b, asked, nil
}

// giveBack releases the claim of a failed begin, in case the store granted it all the same. Otherwise the key would be
// blocked for a lease, and its outcome unknown from then on, although nothing has run. A store that may still be writing the
// claim is asked to begin again: that waits for a write that has begun. It gives up after asideTimeout.
func (g *Guard) giveBack(ctx context.Context, req BeginRequest) {
	longest := min(asideTimeout, g.options.Lease)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	r, err := g.store.Get(ctx, req.ID)
	if errors.Is(err, ErrNotFound) || err == nil && r.Owner != req.Owner {
		var b Begun
		req.Lease = longest
		half, end := context.WithTimeout(ctx, longest/2)
		b, err = g.store.Begin(half, req)
		end()
		if r = b.Record; err != nil { // it may have been granted all the same
			r, err = g.store.Get(ctx, req.ID)
		}
	}
	if err != nil || r.Owner != req.Owner || r.State != InFlight {
		return
	}
	t := Ticket{guard: g, record: r}
	end, _ := ctx.Deadline()
	_ = t.settleOn(ctx, Settlement{State: Released, TTL: g.options.TTL}, end)
}

// sweep removes expired records from time to time, if the store does not do so by itself. If it fails, the next sweep
// continues.
func (g *Guard) sweep(ctx context.Context) {
	admin, ok := g.store.(Admin)
	if g.records.Add(1)%sweepEvery != 0 || !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), asideTimeout)
	defer cancel()
	_, _ = admin.Expire(ctx, sweepLimit)
}

// answer returns the refusal for a caller whose effect must not run, or nil for a completed record.
func (g *Guard) answer(ctx context.Context, r *Request, b *Begun) (refusal *RefusedError) {
	a := action{name: actionHit}
	switch b.Verdict {
	case Replay:
		if f := b.Record.Failure; f != nil && !b.Record.HasResult {
			a.detail = f.Type
		}
	case Refuse:
		f := Failure{}
		if b.Record.Failure != nil {
			f = *b.Record.Failure
		}
		a.detail = "failed"
		refusal = refuse(policy.ReasonIdempotencyFailed, classify.Permanent(&FailureError{r.id(), f}))
	case Busy:
		a.name = actionConflict
		err := classify.After(&InFlightError{r.id(), b.RetryAfter}, b.RetryAfter)
		if ctx.Err() != nil { // it ended during the wait
			err = errors.Join(err, context.Cause(ctx))
		}
		refusal = refuse(policy.ReasonIdempotencyInFlight, err)
		refusal.RetryAfter = b.RetryAfter
	case Mismatch:
		a.name = actionMismatch
		err := fmt.Errorf("%w: %s: repeat that request unchanged, or use another key", ErrMismatch, r.id())
		refusal = refuse(policy.ReasonIdempotencyMismatch, classify.Permanent(err))
	default:
		a.name = actionUnknown
		refusal = refuse(policy.ReasonOutcomeUnknown, classify.Permanent(fmt.Errorf("%w: %s", ErrUnknown, r.id())))
	}
	if err := g.tell(ctx, &r.Work, &b.Record, a); err != nil {
		return refuse(unanswered(ctx), err)
	}
	return refusal
}
