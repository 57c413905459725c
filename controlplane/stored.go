package controlplane

import (
	"context"
	"log/slog"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/policy"
)

// DocumentStore is implemented by stores that hold a policy document. Both methods return promptly when ctx ends.
type DocumentStore interface {
	// Load returns the document and a revision that differs whenever the document does; the revision may be empty. Without a
	// document it returns an error that wraps policy.ErrPolicyNotFound. Any other error means that the store cannot be
	// reached, unless it wraps policy.ErrPolicyFetchFailed. Load is never called concurrently.
	Load(ctx context.Context) (data []byte, revision string, err error)
	// Watch returns a channel that receives a value after changes and is closed when the watch ends; values may be merged
	// and may come without a change. A store that cannot watch returns a nil channel and a nil error, and is polled.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// StoredOptions configure [NewStored]. The zero value is usable.
type StoredOptions struct {
	// Name of the document in faults and logs. Default "policies".
	Name string
	// Interval between checks of the store, in addition to those after a signal of Watch. Default 30 s.
	Interval time.Duration
	// Timeout of one check of the store. Default 2 s.
	Timeout time.Duration
	// MinBackoff and MaxBackoff bound the waits, which double and are drawn at random, between checks of a store that
	// fails. Defaults 500 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// CachePath is a file that keeps the last good document for the next start. Default none.
	CachePath string
	// Limits by surface, wider or narrower than the built-in ones, which apply to absent surfaces.
	Limits map[policy.Surface]policy.Limits
	// OnChange is called with every new document after it has come into force, OnError once for every distinct fault. Both
	// are called on the provider's goroutine or on that of Reload, and must not call Reload or Close.
	OnChange func(*policy.Set)
	OnError  func(error)
	// Logger for the same. Default slog.Default().
	Logger *slog.Logger
}

// Stored is a provider that reads a document through a [DocumentStore]. Create it with [NewStored].
type Stored struct{ *live }

// NewStored makes a provider and starts one goroutine, which follows the store and ends with Close. It does not wait for the
// store. A nil store panics.
func NewStored(store DocumentStore, o StoredOptions) *Stored {
	argument.Need(store != nil, "controlplane: NewStored: the store") // otherwise the goroutine below would panic
	defaultTo(&o.Name, "policies")
	return &Stored{newFollowed(store, o)}
}

// newFollowed starts a live document that returns faults to callers, together with the last known good policies.
func newFollowed(store DocumentStore, o StoredOptions) *live {
	defaultTo(&o.Interval, defaultTTL)
	defaultTo(&o.Timeout, defaultTimeout)
	defaultTo(&o.MinBackoff, defaultMinBackoff)
	defaultTo(&o.MaxBackoff, defaultMaxBackoff)
	l := newLive(store, liveOptions{
		name: o.Name, source: policy.SourceRemote, interval: o.Interval, timeout: o.Timeout,
		lowPause: o.MinBackoff, maxPause: max(o.MinBackoff, o.MaxBackoff), limits: o.Limits, onChange: o.OnChange,
	}, newReports(o.OnError, o.Logger), newCache(o.CachePath, o.Name))
	l.recall()
	l.group.Go(l.follow)
	return l
}

func newCache(path, origin string) *cache {
	if path == "" {
		return nil
	}
	return &cache{path: path, origin: origin}
}

const (
	defaultTTL        = 30 * time.Second
	defaultTimeout    = 2 * time.Second
	defaultMinBackoff = 500 * time.Millisecond
	defaultMaxBackoff = 30 * time.Second
	defaultMaxKeys    = 1024
)

// defaultTo sets an absent value, which is one that is zero, empty or negative.
func defaultTo[T string | int | time.Duration](v *T, byDefault T) {
	var zero T
	if *v <= zero {
		*v = byDefault
	}
}
