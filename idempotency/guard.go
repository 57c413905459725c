package idempotency

import (
	"context"
	"errors"
	"time"

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

// Guard runs effects once per key. It is safe for concurrent use.
type Guard struct{}

// Request names what is to be done once.
type Request struct {
	// ID: an empty tenant or operation is the guard's.
	ID
	// Fingerprint is of what the caller asks for ([Fingerprint]); the same key with another one is ErrMismatch.
	Fingerprint string
	// PolicyHash is kept with the record: the revision of the policy that the effect runs under.
	PolicyHash string
	// Work is whom events speak of. The guard fills in the key, and tenant and operation where they are empty.
	Work observe.Work
}

// NewGuard returns a guard over a store. It fails on options out of range, and on a TTL that does not cover a policy.
func NewGuard(store Store, o GuardOptions) (*Guard, error) { return nil, errors.ErrUnsupported }

// Do is [Guard.Run] for a key in the guard's own scope.
func (g *Guard) Do(ctx context.Context, key, fingerprint string, op func(context.Context) ([]byte, error)) ([]byte, error) {
	return g.Run(ctx, Request{ID: ID{Key: key}, Fingerprint: fingerprint}, op)
}

// Run runs op once for the request's key and returns its result; if it has run before, it returns the stored result and
// does not run it.
func (g *Guard) Run(ctx context.Context, r Request, op func(context.Context) ([]byte, error)) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// Begin claims the request's key. A ticket either holds the right and the duty to run the effect and settle it, or, if
// Replayed, a stored result. All else is an error, and the effect must not run.
func (g *Guard) Begin(ctx context.Context, r Request) (*Ticket, error) {
	return nil, errors.ErrUnsupported
}
