package sharing

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/internal/wait"
)

const (
	interval      = 250 * time.Millisecond // between exchanges; an opening of a breaker reaches every process within two of them
	minPause      = 10 * time.Millisecond  // after an exchange, so that a limit in great demand costs at most 100 exchanges a second
	answerTimeout = time.Second            // for an exchange, with all its tries
	maxTries      = 10                     // of an exchange that other processes overtake
)

// Member is a limit's part in this process. The hub's goroutine calls its methods, one at a time.
type Member interface {
	// Due reports whether the member has something to exchange, or follows its state in the store.
	Due() bool
	// Change computes the limit's next state from the one in the store, nil for none, by the store's clock; a result of nil leaves
	// the state as it is. Change may run several times before Settle, and then only its last result counts.
	Change(now time.Time, data []byte) []byte
	// Settle ends an exchange: without an error, the last result of Change is in the store. With an error it may be, and the store is
	// away. Members that took no part get the error too.
	Settle(err error)
	// Leave is the last call before a final exchange, in which Change gives everything back.
	Leave()
}

// Hub exchanges the parts of shared limits with a store. It is safe for concurrent use; create one per process and store with
// [NewHub], and close it after the last call.
type Hub struct {
	store Store
	id    string
	wake  wait.Signal
	stop  context.CancelFunc
	ended chan struct{}

	mu       sync.Mutex // guards the fields below
	links    []*Link
	linked   int
	watchers []func(Status)
	status   Status
}

// Status says whether the store answers.
type Status struct {
	Away bool
	Err  error     // why it is away
	At   time.Time // when that began
}

// NewHub makes a hub and starts its goroutine. The hub does not close the store. A nil store panics.
func NewHub(store Store) *Hub {
	argument.Need(store != nil, "sharing: NewHub: the store")
	ctx, stop := context.WithCancel(context.Background())
	h := &Hub{store: store, id: uuidv7.Next(), wake: wait.NewSignal(), stop: stop, ended: make(chan struct{})}
	go h.run(ctx)
	return h
}

// Link connects a member with its hub.
type Link struct {
	hub     *Hub
	name    string
	id      string
	member  Member
	leaving atomic.Bool
	left    bool // Leave was called; only the hub's goroutine uses it
}

// Link returns a connection for a member of the limit of that name. The member takes part once it has joined. A name that a store could
// refuse is replaced by its hash, so that it does not stop the exchanges of other limits.
func (h *Hub) Link(name string) *Link {
	if len(name) > MaxName || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		name = fmt.Sprintf("sha256/%x", sha256.Sum256([]byte(name)))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.linked++ // executors of one process may share a limit
	return &Link{hub: h, name: name, id: fmt.Sprintf("%s.%d", h.id, h.linked)}
}

// Join makes a member take part in the exchanges of its limit. Call it once.
func (l *Link) Join(m Member) {
	argument.Need(m != nil, "sharing: Join: the member")
	l.hub.mu.Lock()
	l.member = m
	l.hub.links = append(l.hub.links, l)
	l.hub.mu.Unlock()
	l.Wake()
}

// ID identifies the member among all those of the limit, in all processes.
func (l *Link) ID() string { return l.id }

// Wake asks for an exchange soon. It does not block.
func (l *Link) Wake() { l.hub.wake.Send() }

// Leave ends the member's part in the exchanges, after a last one that gives back what it holds. It does not wait for that.
func (l *Link) Leave() {
	l.leaving.Store(true)
	l.Wake()
}

// Watch calls f, one call at a time, whenever the store begins or ceases to be away.
func (h *Hub) Watch(f func(Status)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers = append(h.watchers, f)
}

// Status returns whether the store answers.
func (h *Hub) Status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}

// Close gives back what all members hold, ends the hub's goroutine and waits for it, at most until ctx ends or for a second. The
// error is that of the last exchange. Further calls return nil.
func (h *Hub) Close(ctx context.Context) error {
	h.stop()
	select {
	case <-h.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	h.mu.Lock()
	links := h.links
	h.links = nil
	h.mu.Unlock()
	if len(links) == 0 {
		return nil
	}
	for _, l := range links {
		l.leave()
	}
	if err := h.exchange(ctx, links); err != nil {
		return fmt.Errorf("sharing: give back the shares of limits: %w", err)
	}
	return nil
}

func (l *Link) leave() {
	if !l.left {
		l.left = true
		l.member.Leave()
	}
}

// run exchanges what is due, until ctx ends.
func (h *Hub) run(ctx context.Context) {
	defer close(h.ended)
	backoff := wait.Backoff{Min: interval / 2, Max: 8 * interval}
	for {
		var pause time.Duration
		wake := h.wake
		if err := h.round(context.WithoutCancel(ctx)); err == nil { // an exchange that has begun is finished
			backoff.Reset()
			if wait.For(ctx, minPause) != nil {
				return
			}
			pause = interval - minPause
		} else {
			pause, wake = backoff.Failed(), nil
		}
		if _, err := wait.ForSignal(ctx, pause, wake); err != nil {
			return
		}
	}
}

// round exchanges what is due.
func (h *Hub) round(ctx context.Context) error {
	var due []*Link
	h.mu.Lock()
	all := slices.Clone(h.links)
	h.mu.Unlock()
	for _, l := range all {
		if l.leaving.Load() {
			l.leave()
		}
		if l.left || l.member.Due() {
			due = append(due, l)
		}
	}
	if len(due) == 0 {
		return nil
	}
	// In another order each time, so that all executors of a process that share a limit come first in turn.
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	err := h.exchange(ctx, due)
	h.mu.Lock()
	h.links = slices.DeleteFunc(h.links, func(l *Link) bool { return l.left }) // also after an error: their tokens are lost
	h.mu.Unlock()
	if err != nil {
		for _, l := range all {
			l.member.Settle(err)
		}
	}
	h.note(err)
	return err
}

// exchange exchanges the parts of some members.
func (h *Hub) exchange(ctx context.Context, links []*Link) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for try := range maxTries {
		if try > 0 {
			if err := wait.For(ctx, wait.Jittered(0, minPause, try)); err != nil {
				return err
			}
		}
		var err error
		if links, err = h.try(ctx, links); err != nil || len(links) == 0 {
			return err
		}
	}
	return nil // the next round goes on
}

// try exchanges once, and returns those that other processes have overtaken.
func (h *Hub) try(ctx context.Context, links []*Link) (overtaken []*Link, err error) {
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = l.name
	}
	snapshot, err := h.store.Load(ctx, names)
	if err != nil {
		return nil, err
	}
	if len(snapshot.States) != len(links) {
		return nil, fmt.Errorf("sharing: the store returned %d states instead of %d", len(snapshot.States), len(links))
	}
	var changed [][]*Link // by state; executors of one process may share a limit
	var states []State
	for i, l := range links {
		s := snapshot.States[i]
		if at := slices.IndexFunc(states, func(other State) bool { return other.Name == s.Name }); at >= 0 {
			if data := l.member.Change(snapshot.Now, states[at].Data); data != nil {
				states[at].Data = data
			}
			changed[at] = append(changed[at], l)
			continue
		}
		if s.Data = l.member.Change(snapshot.Now, s.Data); s.Data == nil {
			l.member.Settle(nil)
			continue
		}
		changed, states = append(changed, []*Link{l}), append(states, s)
	}
	if len(states) == 0 {
		return nil, nil
	}
	stored, err := h.store.Swap(ctx, states)
	if err == nil && len(stored) != len(states) {
		err = errors.New("sharing: the store did not answer for every state")
	}
	if err != nil {
		return nil, err
	}
	for i, group := range changed {
		if !stored[i] {
			overtaken = append(overtaken, group...)
			continue
		}
		for _, l := range group {
			l.member.Settle(nil)
		}
	}
	return overtaken, nil
}

// note tells the watchers if the store's status has changed.
func (h *Hub) note(err error) {
	h.mu.Lock()
	if h.status.Away == (err != nil) {
		h.mu.Unlock()
		return
	}
	h.status = Status{Away: err != nil, Err: err, At: time.Now()}
	status, watchers := h.status, slices.Clone(h.watchers)
	h.mu.Unlock()
	for _, f := range watchers {
		f(status)
	}
}
