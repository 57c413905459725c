package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// RemoteOptions configure [NewRemote] and [NewRemoteDocument]. Only URL is required.
type RemoteOptions struct {
	// URL of the control plane, without /policies: https://host[:port][/path].
	URL string
	// Client for requests. Default a new http.Client on http.DefaultTransport, but an HTTP/2 connection that is dead is given up within
	// 30 s. Redirects are not followed unless the client sets CheckRedirect.
	Client *http.Client
	// Token is sent as a bearer token. It never appears in errors or logs.
	Token string
	// Headers are sent with every request. Like Token, they never appear in errors or logs.
	Headers http.Header
	// TTL is how long an answer is current. After that, the answer is still used while a new one is fetched in the
	// background. Default 30 s.
	TTL time.Duration
	// NegativeTTL is the same for keys that the control plane does not know (404). Default 30 s.
	NegativeTTL time.Duration
	// MaxKeys is the number of keys that are kept. Beyond it the least recently used are evicted, which is reported once.
	// Default 1024.
	MaxKeys int
	// Timeout of one request, and the longest that a call waits for a key about which nothing is known. Default 2 s.
	Timeout time.Duration
	// MinBackoff and MaxBackoff bound the waits, which double and are drawn at random, after failed requests.
	// Defaults 500 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// CachePath is a file that keeps the last good answers for the next start, readable by its owner only and written
	// within a second of a change. Default none.
	CachePath string
	// Limits by surface, wider or narrower than the built-in ones, which apply to absent surfaces.
	Limits map[policy.Surface]policy.Limits
	// Declared are names of classes, classifiers and hedge triggers that the program supplies (NewRemote only: a document
	// declares them itself). A policy with any other name that Tenet does not know is refused.
	Declared policyfile.Declared
	// OnChange is called with every new document (NewRemoteDocument only), OnError once for every distinct fault. They are
	// called on the goroutine that notices the event, should return soon and must not call Reload or Close.
	OnChange func(*policy.Set)
	OnError  func(error)
	// Logger for the same. Default slog.Default().
	Logger *slog.Logger
}

// String returns the address, without secrets.
func (o RemoteOptions) String() string {
	host := "invalid"
	if u, err := url.Parse(o.URL); err == nil {
		host = u.Scheme + "://" + u.Host
	}
	return "controlplane.RemoteOptions{URL: " + host + ", …}"
}

// GoString is String.
func (o RemoteOptions) GoString() string { return o.String() }

// Remote is a provider of single policies behind HTTP. Create it with [NewRemote]; it is safe for concurrent use.
type Remote struct {
	getter  *getter
	o       RemoteOptions // without its secrets
	reports *reports
	cache   *cache // nil without a path
	epoch   time.Time
	entries atomic.Pointer[map[policy.Key]*entry] // copied on write
	down    atomic.Bool                           // the last request was not answered
	slots   chan struct{}                         // bounds refreshes

	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	writing sync.Mutex // held while the cache is written; taken before mu
	mu      sync.Mutex // guards the fields below, and writes to entries
	bodies  map[string]string
	saving  bool
	closed  bool
}

// entry is the state of a key.
type entry struct {
	key    policy.Key
	path   string
	answer atomic.Pointer[answer] // nil until the first fetch has ended
	first  context.Context        // done when the first fetch has ended or timed out
	used   atomic.Int64           // last use since the epoch, within touchEvery
	busy   atomic.Bool            // a fetch is running, which owns the fields below
	good   *goodPolicy
	failed int // fetches in a row
}

type answer struct {
	policy *policy.Policy
	err    error
	due    time.Duration // when to ask again, since the epoch
}

type goodPolicy struct {
	current   *policy.Policy
	lastKnown *policy.Policy // the same policy, marked as last known good
	etag      string
}

const (
	// maxRefreshes bounds concurrent refreshes, so that requests do not pile up when many keys are due together or the control
	// plane hangs.
	maxRefreshes = 16
	// touchEvery is the resolution of last uses. A finer one would have calls on many cores contend for one cache line.
	touchEvery = 10 * time.Millisecond
	// saveAfter gathers changes into one write of the cache.
	saveAfter = time.Second
)

// NewRemote makes a provider that asks the control plane for one policy at a time: GET {URL}/policies/{namespace}/{name},
// or GET {URL}/policies/{name} for a key without namespace. Names are escaped as path segments, so that the slash in the
// namespace of a job is %2F. An answer is a policy in JSON as policy.Policy is written, at most 1 MiB, read strictly.
//
// It does not wait for the control plane: an error means that an option is wrong. Requests do not depend on the contexts of
// callers. They run on goroutines that Close ends and waits for.
func NewRemote(o RemoteOptions) (*Remote, error) {
	getter, err := newGetter(o)
	if err != nil {
		return nil, err
	}
	defaultTo(&o.TTL, defaultTTL)
	defaultTo(&o.NegativeTTL, defaultTTL)
	defaultTo(&o.MaxKeys, defaultMaxKeys)
	defaultTo(&o.Timeout, defaultTimeout)
	defaultTo(&o.MinBackoff, defaultMinBackoff)
	defaultTo(&o.MaxBackoff, defaultMaxBackoff)
	o.MaxBackoff = max(o.MinBackoff, o.MaxBackoff)
	o.Token, o.Headers = "", nil
	r := &Remote{
		getter: getter, o: o, reports: newReports(o.OnError, o.Logger), cache: newCache(o.CachePath, getter.base),
		epoch: time.Now(), slots: make(chan struct{}, maxRefreshes), bodies: map[string]string{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.entries.Store(&map[policy.Key]*entry{})
	if r.cache != nil {
		bodies, err := r.cache.load()
		if err != nil {
			r.reports.fault(aboutCache, err.Error(), err)
		}
		maps.Copy(r.bodies, bodies)
	}
	return r, nil
}

// Policy returns the policy of a key. It waits only for the first answer about a key, at most the timeout. The pointer stays
// the same until the policy changes. The package documentation lists the errors.
func (r *Remote) Policy(ctx context.Context, key policy.Key) (*policy.Policy, error) {
	now := time.Since(r.epoch)
	e := (*r.entries.Load())[key]
	if e == nil {
		var err error
		if e, err = r.open(key, now); err != nil {
			return nil, err
		}
	}
	if int64(now)-e.used.Load() > int64(touchEvery) {
		e.used.Store(int64(now))
	}
	a := e.answer.Load()
	if a == nil {
		select {
		case <-e.first.Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %s: %w", policy.ErrProviderUnavailable, key, context.Cause(ctx))
		}
		if a = e.answer.Load(); a == nil {
			return nil, errNoAnswer
		}
	}
	if now >= a.due {
		r.refresh(e)
	}
	return a.policy, a.err
}

// Close cancels running requests, waits for them and writes the cache. Known policies stay in force.
func (r *Remote) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.group.Wait()
	return nil
}

var (
	errClosed = fmt.Errorf("%w: closed", policy.ErrProviderUnavailable)
	errDown   = fmt.Errorf("%w: it did not answer the last request", policy.ErrProviderUnavailable)
)

// open adds an entry for a key.
func (r *Remote) open(key policy.Key, now time.Duration) (*entry, error) {
	path, ok := keyPath(key)
	if !ok {
		return nil, fmt.Errorf("%w: %q cannot be part of an address", policy.ErrPolicyNotFound, key)
	}
	e := &entry{key: key, path: path, good: r.recall(key, path)}
	e.used.Store(int64(now))
	e, evicted, err := r.admit(e)
	if evicted { // reported without holding mu
		err := fmt.Errorf("controlplane: more than %d keys; name operations, not requests, tenants or users, or raise MaxKeys", r.o.MaxKeys)
		r.reports.fault(aboutKeys, err.Error(), err)
	}
	return e, err
}

// admit adds an entry, or returns the one that another goroutine has added meanwhile.
func (r *Remote) admit(e *entry) (kept *entry, evicted bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept := (*r.entries.Load())[e.key]; kept != nil {
		return kept, false, nil
	}
	if r.closed {
		return nil, false, errClosed
	}
	switch {
	case e.good != nil:
		e.answer.Store(&answer{policy: e.good.lastKnown, err: errUnconfirmed})
	case r.down.Load():
		e.answer.Store(&answer{err: errDown})
	default:
		var done context.CancelFunc
		e.first, done = context.WithTimeout(r.ctx, r.o.Timeout)
		e.busy.Store(true)
		r.group.Go(func() {
			defer done()
			r.fetch(e.first, e)
		})
	}
	return e, r.publish(e), nil
}

// keyPath returns the address of a key. It returns false for a segment that is empty, "." or "..", which would be another
// address.
func keyPath(key policy.Key) (path string, ok bool) {
	fits := func(s string) bool { return s != "" && s != "." && s != ".." }
	if key.Namespace == "" {
		return documentPath + "/" + url.PathEscape(key.Name), fits(key.Name)
	}
	return documentPath + "/" + url.PathEscape(key.Namespace) + "/" + url.PathEscape(key.Name), fits(key.Namespace) && fits(key.Name)
}

// publish adds an entry, in place of the least recently used one if there are too many. The caller holds mu.
func (r *Remote) publish(e *entry) (evicted bool) {
	entries := maps.Clone(*r.entries.Load())
	if len(entries) >= r.o.MaxKeys {
		var oldest *entry
		for _, other := range entries {
			if oldest == nil || other.used.Load() < oldest.used.Load() {
				oldest = other
			}
		}
		delete(entries, oldest.key)
		r.reports.forget(oldest.path)
		evicted = true
	}
	entries[e.key] = e
	r.entries.Store(&entries)
	return evicted
}

// refresh fetches an entry in the background, unless a fetch of it or too many others are running.
func (r *Remote) refresh(e *entry) {
	if e.busy.Load() || !e.busy.CompareAndSwap(false, true) {
		return
	}
	select {
	case r.slots <- struct{}{}:
	default:
		e.busy.Store(false) // the next call tries again
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return // closed: entry and slot stay taken, since there are no further fetches
	}
	r.group.Go(func() {
		defer func() { <-r.slots }()
		ctx, cancel := context.WithTimeout(r.ctx, r.o.Timeout)
		defer cancel()
		r.fetch(ctx, e)
	})
}

// fetch asks the control plane and updates the entry's answer.
func (r *Remote) fetch(ctx context.Context, e *entry) {
	defer e.busy.Store(false)
	etag := ""
	if e.good != nil {
		etag = e.good.etag
	}
	got, err := r.getter.get(ctx, e.path, etag)
	if r.ctx.Err() != nil {
		return // closed meanwhile, which says nothing about the control plane
	}
	if err == nil && !got.unchanged {
		err = r.take(e, got)
	}
	r.settle(e, err, time.Since(r.epoch))
}

func (r *Remote) settle(e *entry, err error, now time.Duration) {
	unavailable := errors.Is(err, policy.ErrProviderUnavailable)
	r.down.Store(unavailable)
	if !unavailable {
		r.reports.works(r.getter.base)
	}
	switch {
	case err == nil:
		e.failed = 0
		e.answer.Store(&answer{policy: e.good.current, due: now + early(r.o.TTL)})
		r.reports.works(e.path)
	case errors.Is(err, policy.ErrPolicyNotFound):
		e.failed, e.good = 0, nil
		e.answer.Store(&answer{err: err, due: now + early(r.o.NegativeTTL)})
		r.keep(e.path, "")
		r.reports.works(e.path)
	default:
		e.failed++
		next := &answer{err: err, due: now + wait.Jittered(r.o.MinBackoff, r.o.MaxBackoff, e.failed)}
		if e.good != nil {
			next.policy = e.good.lastKnown
		}
		e.answer.Store(next)
		r.report(e, err, unavailable)
	}
}

// report reports an outage once, not once for each key.
func (r *Remote) report(e *entry, err error, unavailable bool) {
	about, text := e.path, err.Error()
	var failed *fetchError
	if unavailable && errors.As(err, &failed) {
		about, text = r.getter.base, failed.cause.Error()
	}
	r.reports.fault(about, text, err)
}
