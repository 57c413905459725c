package deliver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/internal/keyring"
)

// Times of a hub.
const (
	syncInterval  = 5 * time.Second  // between looks at the store without a signal
	staleAfter    = 15 * time.Second // without a look at the store, requests are refused
	flushInterval = time.Second
	storeTimeout  = 5 * time.Second // of one look at the store or one flush
	pageSize      = 500
)

// Hub delivers the documents of a store. Create it with New; call Run once. It is safe for concurrent use.
type Hub struct {
	store    policystore.Store
	logger   *slog.Logger
	reported reports

	syncing sync.Mutex // one sync at a time, so that older keys do not replace newer ones

	keys   atomic.Pointer[keyring.Keys]
	synced atomic.Int64 // when the store answered last, in Unix nanoseconds
	closed chan struct{}
	close  func()

	mu        sync.RWMutex // guards documents
	documents map[string]*document
}

// New makes a hub. A nil logger is slog.Default().
func New(store policystore.Store, logger *slog.Logger) *Hub {
	logger = cmp.Or(logger, slog.Default())
	h := &Hub{store: store, logger: logger, documents: map[string]*document{}, closed: make(chan struct{})}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	h.reported.clients, h.reported.source = map[policystore.ClientKey]*client{}, uuidv7.Next()
	return h
}

// Close ends all streams and long polls, so that a server can drain. Later ones end at once.
func (h *Hub) Close() { h.close() }

// Closing is closed by Close.
func (h *Hub) Closing() <-chan struct{} { return h.closed }

// Run follows the store until ctx ends, then writes what it has collected.
func (h *Hub) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { h.flushAll(ctx) })
	var changes <-chan struct{}
	backoff := wait.Backoff{Min: 200 * time.Millisecond, Max: syncInterval}
	partial := false // the logged fault concerns single documents
	for ctx.Err() == nil {
		if changes == nil {
			changes = h.watch(ctx) // before the look at the store, so that no change is missed in between
		}
		pause := syncInterval
		if err := h.sync(ctx); err != nil && ctx.Err() == nil {
			_, single := errors.AsType[*documentError](err)
			if backoff.Failures() == 0 || partial && !single {
				h.logger.Warn("the policy store cannot be read", "error", err)
				partial = single
			}
			pause = backoff.Failed()
		} else {
			backoff.Reset()
		}
		timer := time.NewTimer(pause)
		select {
		case _, open := <-changes:
			if !open {
				changes = nil
				_ = wait.For(ctx, min(pause, time.Second))
			}
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// watch returns nil if the store cannot be watched now.
func (h *Hub) watch(ctx context.Context) <-chan struct{} {
	changes, err := h.store.Watch(ctx)
	if err != nil {
		return nil
	}
	return changes
}

// Rekey signs what the hub delivers with the keys that are now in the store. It returns an error if that is not possible now; Run repeats it.
func (h *Hub) Rekey(ctx context.Context) error { return h.sync(ctx) }

// sync loads the documents that have changed, of those that someone has asked for. A document that cannot be read keeps its last view.
func (h *Hub) sync(ctx context.Context) error {
	h.syncing.Lock()
	defer h.syncing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	keys, err := keyring.Load(ctx, h.store)
	if err != nil {
		return err
	}
	h.keys.Store(keys)
	page := func(after string, limit int) ([]policystore.Document, error) {
		return h.store.Documents(ctx, after, limit)
	}
	h.mu.RLock()
	missing := maps.Clone(h.documents)
	h.mu.RUnlock()
	var faults []error
	for state, err := range paging.All("", pageSize, page, func(d policystore.Document) string { return d.Name }) {
		if err != nil {
			return err
		}
		if state.Current == 0 {
			continue // there is nothing to deliver
		}
		delete(missing, state.Name)
		d := h.held(state.Name)
		if d == nil {
			continue
		}
		if d.view.Load().shows(&state, keys) {
			continue
		}
		if err := d.load(ctx, h.store, &h.keys); err != nil { // does not affect the others
			faults = append(faults, &documentError{state.Name, err})
			if ctx.Err() != nil { // unless time ran out
				return errors.Join(faults...)
			}
		}
	}
	for name, d := range missing {
		if !d.stored() {
			continue
		}
		err := d.load(ctx, h.store, &h.keys)
		switch {
		case !d.stored():
			h.logger.Warn("the policy store does not hold a document any more; if it was restored from a backup, publish the document again",
				"document", name)
		case err != nil:
			faults = append(faults, &documentError{name, err})
		}
	}
	h.synced.Store(time.Now().UnixNano())
	return errors.Join(faults...)
}

// documentError says that a document cannot be read from a store that answers.
type documentError struct {
	name string
	err  error
}

func (e *documentError) Error() string { return fmt.Sprintf("document %q: %v", e.name, e.err) }
func (e *documentError) Unwrap() error { return e.err }

// held returns a document that someone has asked for, or nil.
func (h *Hub) held(name string) *document {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.documents[name]
}

// document returns a document that the store holds, or policystore.ErrNotFound, or errUnavailable.
func (h *Hub) document(ctx context.Context, name string) (*document, error) {
	if d := h.held(name); d != nil && d.stored() {
		return d, nil
	}
	if h.keys.Load() == nil {
		return nil, errUnavailable
	}
	h.mu.Lock()
	d := h.documents[name]
	if d == nil { // in the map before it is loaded, so that sync does not miss a change in between
		d = &document{name: name, watchers: map[*watcher]struct{}{}}
		h.documents[name] = d
	}
	d.asking++
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	err := d.load(ctx, h.store, &h.keys)
	h.mu.Lock()
	d.asking--
	loaded := d.stored()
	if !loaded && d.asking == 0 { // nobody else may get a view of what sync no longer finds
		delete(h.documents, name)
	}
	h.mu.Unlock()
	if loaded {
		return d, nil
	}
	if errors.Is(err, policystore.ErrNotFound) {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", errUnavailable, err)
}

// available reports whether what the hub knows is recent.
func (h *Hub) available() bool {
	return time.Since(time.Unix(0, h.synced.Load())) < staleAfter
}
