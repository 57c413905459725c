package job

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/wait"
)

// Relay is implemented by stores that pass the events of all workers on to whoever watches. Workers publish only while somebody
// does.
type Relay interface {
	// Publish stores events for watchers, in their order and all or none, and forgets all but the last EventsKept of the store.
	// Their positions become visible in ascending order, without gaps. The store ignores the positions of the list.
	Publish(ctx context.Context, list []Event) error
	// Watch returns at most limit events after a position in order, and the position of the last event of the store. A position
	// below 0 is the end. It also tells the workers that somebody watches, for WatchFor from now.
	Watch(ctx context.Context, after int64, limit int) (list []Event, last int64, err error)
	// Watched reports whether somebody has watched in the last WatchFor.
	Watched(ctx context.Context) (bool, error)
}

const (
	// EventsKept is how many events a store keeps for watchers that are behind.
	EventsKept = 100_000
	// WatchFor is how long workers go on publishing after somebody has last looked. After an outage of the store that was
	// shorter, a watcher has missed nothing.
	WatchFor = time.Minute

	watchEvery  = 200 * time.Millisecond // how often a watcher looks
	watchAtOnce = 1000                   // events that it reads at a time
	watchAnswer = 10 * time.Second       // for an answer: a store that hangs is asked again before workers cease to publish
	relayEvery  = 500 * time.Millisecond // how often workers look for watchers
	relayRoom   = 10_000                 // events of a worker that wait to be published
)

// WatchOptions say what Watch passes on.
type WatchOptions struct {
	// Filter selects events by what they know of their job: id, state (the new one), queue, type, error and meta. [CheckWatch]
	// refuses other filters, which would select nothing.
	Filter Filter
	// After is the position after which to begin; 0 is the oldest event that the store still has, and a position below 0 the
	// present end.
	After int64
	// Failing is called when the store begins to fail, and with nil when it answers again. May be nil.
	Failing func(error)
	// At is called after each look at the store with the position after which a later watch would go on. May be nil.
	At func(position int64)
}

// CheckWatch returns an error for a filter with conditions that events cannot be compared with.
func CheckWatch(f Filter) error {
	const remedy = "filter by id, state, queue, type, error or meta"
	if !f.CreatedAfter.IsZero() || !f.CreatedBefore.IsZero() {
		return fmt.Errorf("job: watch: before, after: events do not say when their job was created; %s", remedy)
	}
	for _, t := range f.Terms {
		if !slices.Contains([]string{FieldQueue, FieldType, FieldError, FieldMeta}, t.Field) {
			return fmt.Errorf("job: watch: %s: events do not contain it; %s", t.Name(), remedy)
		}
	}
	return f.Check()
}

// Watch passes the events of all workers of a store to visit as they are published, until ctx ends or visit returns an error,
// and returns that error or ctx's. If the store fails, Watch repeats its requests and goes on where it was. Events that the
// store has forgotten meanwhile are reported as lost; so are the losses of others that do not match.
func Watch(ctx context.Context, store Relay, o WatchOptions, visit func(Event) error) error {
	argument.Need(ctx != nil, "job: Watch: the context")
	argument.Need(store != nil, "job: Watch: the store")
	argument.Need(visit != nil, "job: Watch: visit")
	if err := CheckWatch(o.Filter); err != nil {
		return err
	}
	w := watcher{WatchOptions: o, visit: visit, begun: o.After > 0}
	backoff := wait.Backoff{Min: watchEvery, Max: longestPause}
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, watchAnswer)
		list, last, err := store.Watch(limited, w.After, watchAtOnce)
		cancel()
		if err != nil {
			if ctx.Err() == nil && backoff.Failures() == 0 {
				w.failing(err)
			}
			_ = backoff.Wait(ctx)
			continue
		}
		if backoff.Failures() > 0 {
			w.failing(nil)
			backoff.Reset()
		}
		if w.After < 0 || last < w.After { // or the store was restored from a backup
			w.After, w.begun = last, true
		}
		if err := w.pass(list); err != nil {
			return err
		}
		if o.At != nil {
			o.At(w.After)
		}
		if len(list) < watchAtOnce {
			_ = wait.For(ctx, watchEvery)
		}
	}
	return ctx.Err()
}

// watcher is a watch that goes on after the position After.
type watcher struct {
	WatchOptions
	visit func(Event) error
	begun bool // a gap after After is a loss
}

func (w *watcher) failing(err error) {
	if w.Failing != nil {
		w.Failing(err)
	}
}

func (w *watcher) pass(list []Event) error {
	for _, e := range list {
		if w.begun {
			e.Lost += e.Position - w.After - 1
		}
		w.After, w.begun = e.Position, true
		if e.ID == "" || !w.Filter.Matches(e.record()) {
			if e.Lost == 0 {
				continue
			}
			e = Event{Position: e.Position, Time: e.Time, Worker: e.Worker, Lost: e.Lost}
		}
		if err := w.visit(e); err != nil {
			return err
		}
	}
	return nil
}

// relay publishes the events of a worker while somebody watches its store.
type relay struct {
	store   Relay
	timeout time.Duration // of one call
	events  *events
	health  *health
	own     *subscription // nil while nobody watches
	pending []Event       // could not be published yet
}

// run publishes until ctx ends. Until it has looked for watchers for the first time the events of the worker wait, so that a
// watcher misses none of a worker that starts.
func (r *relay) run(ctx context.Context) {
	look := time.NewTicker(relayEvery)
	defer look.Stop()
	r.look(ctx)
	for ctx.Err() == nil {
		var more wait.Signal
		if r.own != nil && len(r.pending) == 0 { // otherwise the next look repeats them
			more = r.own.wake
		}
		select {
		case <-more:
		case <-look.C:
			r.look(ctx)
		case <-ctx.Done():
		}
		r.publish(context.WithoutCancel(ctx))
	}
	if r.own != nil {
		r.publish(context.WithoutCancel(ctx))
		if len(r.pending) == 0 { // that was what an outage had left; more may have come since
			r.publish(context.WithoutCancel(ctx))
		}
		r.events.leave(r.own)
	}
}

func (r *relay) look(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	watched, err := r.store.Watched(limited)
	if ctx.Err() != nil {
		return
	}
	r.health.report("look for watchers", err)
	switch {
	case err != nil:
	case watched && r.own == nil:
		r.own = r.events.subscribe(relayRoom)
	case !watched && r.own != nil:
		r.events.leave(r.own)
		r.own, r.pending = nil, nil
	}
}

func (r *relay) publish(ctx context.Context) {
	if r.own == nil {
		return
	}
	if len(r.pending) == 0 {
		r.pending = r.own.take()
	}
	if len(r.pending) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, cancelGrace)
	defer cancel()
	err := r.store.Publish(limited, r.pending)
	r.health.report("publish events", err)
	if err == nil {
		r.pending = nil
	}
}
