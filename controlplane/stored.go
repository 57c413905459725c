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
	// Load returns the document and a revision that differs whenever the document does; an empty revision says nothing.
	// Without a document it returns an error that wraps policy.ErrPolicyNotFound. Any other error means that the store
	// cannot be reached, unless it wraps policy.ErrPolicyFetchFailed. It is never called twice at the same time.
	Load(ctx context.Context) (data []byte, revision string, err error)
	// Watch returns a channel that receives a value after changes and is closed when the watch ends; values may be merged
	// and may come without a change. A nil channel and a nil error say that the store cannot watch: it is polled.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// StoredOptions configure [NewStored]. The zero value is usable.
type StoredOptions struct {
	// Name of the document in faults and logs. Default "policies".
	Name string
	// Interval between looks at the store, beside those that Watch asks for. Default 30 s.
	Interval time.Duration
	// Timeout of one look at the store. Default 2 s.
	Timeout time.Duration
	// MinBackoff and MaxBackoff bound the waits, which double and are drawn at random, between looks at a store that
	// fails. Defaults 500 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// CachePath is a file that keeps the last good document for the next start. Default none.
	CachePath string
	// Limits by surface, wider or narrower than the built-in ones, which hold for surfaces that are absent.
	Limits map[policy.Surface]policy.Limits
	// OnChange is told of every new document after it has come into force, OnError of every distinct fault once. Both are
	// called on the provider's goroutine or on that of Reload, and must not call Reload or Close.
	OnChange func(*policy.Set)
	OnError  func(error)
	// Logger for the same. Default slog.Default().
	Logger *slog.Logger
}

// Stored is a provider that reads a document through a [DocumentStore]. Create it with [NewStored].
type Stored struct{ *live }

// NewStored makes a provider and begins to follow the store in one goroutine, which ends with Close. It does not wait
// for the store. A nil store panics.
func NewStored(store DocumentStore, o StoredOptions) *Stored {
	argument.Need(store != nil, "controlplane: NewStored: the store") // else the panic would come from the goroutine below
	defaultTo(&o.Name, "policies")
	return &Stored{newFollowed(store, o)}
}

// newFollowed starts a live document whose faults are passed to callers together with the last known good policies.
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

// defaultTo sets what is absent: zero, empty or negative.
func defaultTo[T string | int | time.Duration](v *T, byDefault T) {
	var zero T
	if *v <= zero {
		*v = byDefault
	}
}
