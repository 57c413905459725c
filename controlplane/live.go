package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// Status is the state of a provider that holds a document.
type Status struct {
	// Revision of the document in force: the SHA-256 of its canonical form. Empty while there is none.
	Revision string
	// LoadedAt is when that document was first read.
	LoadedAt time.Time
	// LastError says why the source's current content is not in force; nil if it is.
	LastError error
}

// live keeps the newest good document of a store in force:
//
//	nothing ──good──► current ──fault──► last known good ──good──► current
//	   └────fault───► nothing, with the fault
//
// One goroutine checks the store; Reload may check in between.
type live struct {
	store   DocumentStore
	o       liveOptions
	reports *reports
	cache   *cache // nil without a path

	current atomic.Pointer[view] // nil until the first check of the store
	first   context.Context      // done when the first check has ended or timed out
	begun   context.CancelFunc   // ends first
	ctx     context.Context
	cancel  context.CancelFunc
	group   sync.WaitGroup

	turn      wait.Mutex // held while the store is checked; guards the fields below
	tried     string     // the revision that was read last
	triedErr  error      // the fault of that revision
	good      *document
	announced *policy.Set
}

type liveOptions struct {
	name               string // of the document in faults
	source             policy.Source
	quiet              bool // faults are not passed to callers
	interval, timeout  time.Duration
	lowPause, maxPause time.Duration
	limits             map[policy.Surface]policy.Limits
	onChange           func(*policy.Set)
	// tried, if set, is told the outcome for every revision that is read, before it comes into force.
	tried func(revision string, err error)
}

// document is a valid document.
type document struct {
	data     []byte
	set      *policy.Set
	fallback *policy.Set // the document as last known good; made when needed
	loadedAt time.Time
}

// view is the state that callers see.
type view struct {
	set     *policy.Set // nil while nothing is known
	err     error
	version uint64
	status  Status
}

func newLive(store DocumentStore, o liveOptions, r *reports, c *cache) *live {
	l := &live{store: store, o: o, reports: r, cache: c, turn: wait.NewMutex()}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.first, l.begun = context.WithTimeout(l.ctx, o.timeout)
	return l
}

// Policy returns the policy of a key. Before the first document is known, it waits for it, for at most the provider's
// timeout. The package documentation lists the errors.
func (l *live) Policy(ctx context.Context, key policy.Key) (*policy.Policy, error) {
	v := l.current.Load()
	if v == nil {
		select {
		case <-l.first.Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", policy.ErrProviderUnavailable, context.Cause(ctx))
		}
		if v = l.current.Load(); v == nil {
			return nil, errNoAnswer
		}
	}
	if v.set == nil {
		return nil, v.err
	}
	p, err := v.set.Policy(ctx, key)
	if err != nil {
		return nil, err
	}
	return p, v.err
}

var errNoAnswer = fmt.Errorf("%w: no answer yet", policy.ErrProviderUnavailable)

// Version changes whenever answers change.
func (l *live) Version() uint64 {
	if v := l.current.Load(); v != nil {
		return v.version
	}
	return 0
}

// Set returns the document in force, or nil while there is none.
func (l *live) Set() *policy.Set {
	if v := l.current.Load(); v != nil {
		return v.set
	}
	return nil
}

// Status returns which document is in force, and why a newer one is not.
func (l *live) Status() Status {
	if v := l.current.Load(); v != nil {
		return v.status
	}
	return Status{}
}

// Close ends the provider's goroutine and waits for it. The last document stays in force. It returns nil.
func (l *live) Close() error {
	l.cancel()
	l.group.Wait()
	return nil
}

// Reload checks the source now instead of waiting for the next poll, for example on SIGHUP. If it returns nil, the source's
// content is in force; otherwise the last good document still is. It must not be called from OnChange or OnError.
func (l *live) Reload(ctx context.Context) error {
	if err := l.turn.Lock(ctx); err != nil {
		return err
	}
	defer l.turn.Unlock()
	data, revision, err := l.load(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx) // says nothing about the source
	}
	err = l.apply(data, revision, err)
	l.announce(err)
	return err
}

// apply puts the result of a check of the source in force. The caller holds turn.
func (l *live) apply(data []byte, revision string, err error) error {
	if err == nil {
		err = l.read(data, revision)
	}
	l.publish(err)
	return err
}

func (l *live) load(ctx context.Context) (data []byte, revision string, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.o.timeout)
	defer cancel()
	data, revision, err = l.store.Load(ctx)
	switch {
	case err == nil, errors.Is(err, policy.ErrProviderUnavailable), errors.Is(err, policy.ErrPolicyNotFound),
		errors.Is(err, policy.ErrPolicyFetchFailed):
		return data, revision, err
	}
	return nil, "", fmt.Errorf("%w: %s: %w", policy.ErrProviderUnavailable, l.o.name, err)
}

// read makes data the good document, unless it is invalid or equivalent to the current one. The caller holds turn.
func (l *live) read(data []byte, revision string) error {
	if revision != "" && revision == l.tried {
		return l.triedErr
	}
	parsed, err := l.parse(data, l.o.source)
	l.tried, l.triedErr = revision, err
	if l.o.tried != nil {
		l.o.tried(revision, err)
	}
	if err != nil {
		return err
	}
	for _, w := range parsed.Warnings {
		l.reports.logger.Warn("policy document", "warning", w.String())
	}
	if l.good != nil && l.good.set.Revision() == parsed.Set.Revision() {
		return nil
	}
	l.good = &document{data: data, set: parsed.Set, loadedAt: time.Now()}
	if l.cache != nil {
		l.reports.cacheSaved(l.cache.save(map[string]string{"": string(data)}))
	}
	return nil
}

func (r *reports) cacheSaved(err error) {
	if err != nil {
		r.fault(aboutCache, err.Error(), err)
		return
	}
	r.works(aboutCache)
}

func (l *live) parse(data []byte, source policy.Source) (*policyfile.Document, error) {
	parsed, err := policyfile.Parse(l.o.name, data, policyfile.Options{Source: source, Limits: l.o.limits})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", policy.ErrPolicyFetchFailed, err)
	}
	return parsed, nil
}

// publish makes the good document visible to callers, as last known good if err is not nil. The caller holds turn.
func (l *live) publish(err error) {
	old := l.current.Load()
	next := &view{status: Status{LastError: err}}
	if l.good != nil {
		next.set = l.good.set
		next.status.Revision, next.status.LoadedAt = l.good.set.Revision(), l.good.loadedAt
	}
	if err != nil && !l.o.quiet {
		next.err = err
		next.set = l.lastKnown()
	}
	next.version = 1
	if old != nil {
		next.version = old.version
		if old.set != next.set || text(old.err) != text(next.err) {
			next.version++
		}
	}
	l.current.Store(next)
	l.begun()
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// lastKnown returns the good document with its policies marked as last known good.
func (l *live) lastKnown() *policy.Set {
	if l.good == nil {
		return nil
	}
	if l.good.fallback == nil {
		parsed, err := l.parse(l.good.data, policy.SourceLKG)
		if err != nil {
			return l.good.set // cannot happen: the policies were compiled before
		}
		l.good.fallback = parsed.Set
	}
	return l.good.fallback
}

// announce logs the result of a check of the source, and calls OnChange or OnError. The caller holds turn.
func (l *live) announce(err error) {
	if err != nil {
		l.reports.fault(l.o.name, err.Error(), err)
		return
	}
	l.reports.works(l.o.name)
	if l.announced == l.good.set {
		return
	}
	l.announced = l.good.set
	if l.o.onChange != nil {
		l.o.onChange(l.good.set)
	}
}

// recall puts the document kept on disk in force until the source has answered.
func (l *live) recall() {
	if l.cache == nil {
		return
	}
	bodies, err := l.cache.load()
	body, found := bodies[""]
	if err == nil && !found {
		return
	}
	if err == nil {
		err = l.adopt([]byte(body))
	}
	if err != nil {
		l.reports.fault(aboutCache, err.Error(), err)
	}
}

// adopt puts a document in force that the source has not confirmed yet.
func (l *live) adopt(data []byte) error {
	parsed, err := l.parse(data, l.o.source)
	if err != nil {
		return err
	}
	l.good = &document{data: data, set: parsed.Set, loadedAt: time.Now()}
	l.publish(errUnconfirmed)
	return nil
}

var errUnconfirmed = fmt.Errorf("%w: kept on disk and not confirmed yet", policy.ErrProviderUnavailable)

// follow checks the store after every change and at intervals, until Close.
func (l *live) follow() {
	var changes <-chan struct{}
	failures := 0
	for l.ctx.Err() == nil {
		if changes == nil {
			changes = l.watch() // before the check, so that no change is missed in between
		}
		failures++
		if l.Reload(l.ctx) == nil {
			failures = 0
		}
		changes = l.sleep(l.next(failures), changes)
	}
}

func (l *live) next(failures int) time.Duration {
	if failures == 0 {
		return early(l.o.interval)
	}
	return wait.Jittered(l.o.lowPause, l.o.maxPause, failures)
}

func (l *live) watch() <-chan struct{} {
	changes, err := l.store.Watch(l.ctx)
	switch {
	case l.ctx.Err() != nil:
	case err != nil:
		err = fmt.Errorf("controlplane: watch %s: %w; polling meanwhile", l.o.name, err)
		l.reports.fault(aboutWatch, err.Error(), err)
	default:
		l.reports.works(aboutWatch)
	}
	return changes
}

// sleep waits for d, for a change or for Close. It returns the channel to use from then on, which is nil once changes has
// been closed.
func (l *live) sleep(d time.Duration, changes <-chan struct{}) <-chan struct{} {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return nil
		case <-timer.C:
			return changes
		case _, open := <-changes:
			if open {
				return changes
			}
			changes = nil // a closed channel is not a change: wait for the timer
		}
	}
}
