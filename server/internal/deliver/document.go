package deliver

import (
	"context"
	"crypto/ed25519"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/internal/keyring"
)

// document is a document that someone has asked for.
type document struct {
	name string
	view atomic.Pointer[view] // nil until it has been read once

	loading sync.Mutex // one load at a time
	asking  int        // requests that wait for the first load; guarded by the hub

	mu       sync.Mutex // guards watchers, and what they hold
	watchers map[*watcher]struct{}
}

// view is the immutable state of a document, ready to send.
type view struct {
	policystore.Document
	key       ed25519.PublicKey // that signed the revisions
	current   *signed
	candidate *signed // nil unless a rollout is running or paused
	trial     *signed // nil without a revision under trial
	gone      bool    // the store no longer holds the document, for example because it was restored from a backup
}

// signed is a revision, encoded once for everyone.
type signed struct {
	number int64
	etag   string
	body   []byte // the envelope
	event  []byte // the same as a server-sent event
}

// identity is how a client is known for the choice of its revision.
type identity struct {
	id      string // empty for a request that does not name a client
	labels  map[string]string
	holds   string // entity tag of the revision that the client has
	applied int64  // its number, as the client said; 0 if it did not
}

// desired returns the revision that a client should have.
func (v *view) desired(c identity) *signed {
	if v.candidate == nil || c.id == "" {
		return v.current
	}
	if c.applied == v.candidate.number || v.Rollout.Plan.Selects(v.Rollout.Step, rollout.Assign(c.id, v.Rollout.Seed), c.labels) {
		return v.candidate
	}
	return v.current
}

// watcher is a stream or a long poll.
type watcher struct {
	identity // holds is guarded by the document's mu
	wake     wait.Signal
}

func (d *document) watch(c identity) *watcher {
	w := &watcher{identity: c, wake: wait.NewSignal()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watchers[w] = struct{}{}
	return w
}

func (d *document) forget(w *watcher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watchers, w)
}

// next returns the revision to send to a watcher now, or nil if it has what it should have.
func (d *document) next(w *watcher) *signed {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.view.Load().desired(w.identity)
	if s.etag == w.holds {
		return nil
	}
	w.holds = s.etag
	return s
}

// stored reports whether the document has been read and is still in the store.
func (d *document) stored() bool {
	v := d.view.Load()
	return v != nil && !v.gone
}

// show replaces the view and wakes the watchers that should have another revision now, or none any more.
func (d *document) show(v *view) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.view.Store(v)
	for w := range d.watchers {
		if v.gone || v.desired(w.identity).etag != w.holds {
			w.wake.Send()
		}
	}
}

// shows reports whether a view, which may be nil, is that of a state with these keys. A store that was restored from a backup has other
// states with the same versions, other revisions with the same numbers and other keys with the same versions.
func (v *view) shows(state *policystore.Document, keys *keyring.Keys) bool {
	return v != nil && !v.gone && v.Version == state.Version && v.Updated.Equal(state.Updated) && v.key.Equal(keys.Public())
}

// load reads the document from the store, unless its view shows it already. It signs with the newest keys: those of an earlier load could
// come after a rotation that sync has seen.
func (d *document) load(ctx context.Context, store policystore.Documents, newest *atomic.Pointer[keyring.Keys]) error {
	d.loading.Lock()
	defer d.loading.Unlock()
	keys := newest.Load()
	state, err := store.Document(ctx, d.name)
	if err == nil && state.Current == 0 {
		err = policystore.ErrNotFound
	}
	if errors.Is(err, policystore.ErrNotFound) && d.stored() {
		last := *d.view.Load()
		last.gone = true
		d.show(&last)
	}
	if err != nil {
		return err
	}
	if d.view.Load().shows(&state, keys) {
		return nil
	}
	next := &view{Document: state, key: keys.Public()}
	if next.current, err = d.sign(ctx, store, keys, state.Current); err != nil {
		return err
	}
	if state.Rollout != nil && !state.Rollout.State.Ended() {
		if next.candidate, err = d.sign(ctx, store, keys, state.Rollout.Candidate); err != nil {
			return err
		}
	}
	if state.Trial != nil {
		if next.trial, err = d.sign(ctx, store, keys, state.Trial.Revision); err != nil {
			return err
		}
	}
	d.show(next)
	return nil
}

// sign returns a revision ready to send. The same revision has the same tag.
func (d *document) sign(ctx context.Context, store policystore.Documents, keys *keyring.Keys, number int64) (*signed, error) {
	r, err := store.Revision(ctx, d.name, number)
	if err != nil {
		return nil, err
	}
	e := protocol.Envelope{Document: d.name, Revision: r.Number, Hash: r.Hash, Body: string(r.Body), Published: r.Created}
	keys.Sign(&e)
	body, err := e.Encode()
	if err != nil {
		return nil, err
	}
	return &signed{number: number, etag: protocol.ETag(body), body: body, event: protocol.Event(number, body)}, nil
}

var errUnavailable = errors.New("deliver: the store is out of reach")
