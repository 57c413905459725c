package job

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Registry is implemented by stores that list their workers. It serves to warn producers of jobs that no worker takes; the
// processing of jobs does not depend on it.
type Registry interface {
	// Announce lists a worker for ttl and replaces the entry of the same name; a ttl of 0 or less removes it. It
	// returns a *DurationError for a ttl above 24 h or between 0 and 1 ms.
	Announce(ctx context.Context, w WorkerInfo, ttl time.Duration) error
	// Workers returns the listed workers, sorted by name.
	Workers(ctx context.Context) ([]WorkerInfo, error)
}

// WorkerInfo describes the jobs that a worker takes from a store.
type WorkerInfo struct {
	Name   string   `json:"name"`
	Queues []string `json:"queues"`
	Types  []string `json:"types,omitempty"` // empty: every type, as in a Claim
}

// Takes reports whether the worker claims jobs with the request's queue and type.
func (w WorkerInfo) Takes(r Request) bool {
	return slices.Contains(w.Queues, cmp.Or(r.Queue, DefaultQueue)) && (len(w.Types) == 0 || slices.Contains(w.Types, r.Type))
}

// Announcer keeps a worker's entry in a store's registry. It does nothing for a store without one. It is not safe for
// concurrent use.
type Announcer struct {
	registry Registry
	last     WorkerInfo
	due      time.Time
}

const (
	announceEvery = 10 * time.Second
	announceFor   = 3 * announceEvery // after a crash, the worker stays listed for as long
)

// NewAnnouncer makes an announcer for a store.
func NewAnnouncer(s Store) *Announcer {
	registry, _ := s.(Registry)
	return &Announcer{registry: registry}
}

// Announce renews the worker's entry if it has changed or is 10 s old. An entry ends 30 s after it was last renewed. After
// an error the next call tries again.
func (a *Announcer) Announce(ctx context.Context, w WorkerInfo) error {
	same := w.Name == a.last.Name && slices.Equal(w.Queues, a.last.Queues) && slices.Equal(w.Types, a.last.Types)
	if a.registry == nil || same && time.Now().Before(a.due) {
		return nil
	}
	if err := a.registry.Announce(ctx, w, announceFor); err != nil {
		return err
	}
	a.last, a.due = w, time.Now().Add(announceEvery)
	return nil
}

// Withdraw removes the entry, if there is one.
func (a *Announcer) Withdraw(ctx context.Context) error {
	if a.due.IsZero() {
		return nil
	}
	a.due = time.Time{}
	return a.registry.Announce(ctx, a.last, 0)
}
