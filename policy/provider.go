package policy

import (
	"context"
	"errors"
)

// Provider finds the policy of a key. It returns compiled policies (see [Compile]), which are shared and read-only.
//
// A policy together with an error is a fallback, such as the last known good copy; the executor's options decide whether to
// use it. Implementations are safe for concurrent use and do not wait for a network while any usable policy is known.
type Provider interface {
	Policy(ctx context.Context, key Key) (*Policy, error)
}

// Versioned is implemented by providers that can report cheaply whether anything has changed. While the version stays the
// same, the provider's answer for a key stays valid, and executors do not ask again. The exception is an error returned to a
// caller whose context had ended.
type Versioned interface {
	Version() uint64
}

// SetProvider is implemented by providers that hold a whole document: its budgets, queues and pipelines too.
type SetProvider interface {
	Set() *Set
}

// Errors of providers.
var (
	ErrProviderUnavailable = errors.New("tenet: policy provider unavailable")
	ErrPolicyNotFound      = errors.New("tenet: policy not found")
	ErrPolicyFetchFailed   = errors.New("tenet: policy fetch failed")
)
