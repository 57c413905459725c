package retry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/internal/virtual"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// Attempt describes the attempt that an operation runs in.
type Attempt struct {
	Key            policy.Key
	PolicyID       string
	Number         int // in launch order, from 1
	RetryIndex     int // 0 for the first attempt or group
	HedgeIndex     int // 0 for a primary
	MaxAttempts    int // effective
	Operation      string
	Category       policy.Category // of the policy in force
	IdempotencyKey string
	TenantID       string
	CorrelationID  string
	TraceID        string
	ctx            *attemptCtx
}

// CallID returns the ID of the call, which is made when it is first needed.
func (a Attempt) CallID() string {
	if a.ctx == nil { // the zero Attempt
		return ""
	}
	return a.ctx.callID()
}

// AttemptFromContext returns the attempt that ctx belongs to.
func AttemptFromContext(ctx context.Context) (Attempt, bool) {
	c, ok := ctx.Value(attemptKey{}).(*attemptCtx)
	if !ok {
		return Attempt{}, false
	}
	o := c.options
	limit := o.limit
	if limit == 0 {
		limit = o.plan.policy.Retry.MaxAttempts
	}
	return Attempt{
		Key: o.plan.key, PolicyID: o.plan.policy.ID, Number: int(c.number), RetryIndex: int(c.retry), HedgeIndex: int(c.hedge),
		MaxAttempts: limit, Operation: o.operation, Category: o.plan.policy.Category, IdempotencyKey: o.idempotencyKey,
		TenantID: o.tenantID, CorrelationID: o.correlationID, TraceID: o.traceID, ctx: c,
	}, true
}

// Detach keeps the context of the running attempt alive after the call has returned, for results that are still being
// read, such as the body of a response. The attempt's and the call's timeouts stop counting. The context then ends with
// the caller's, or with release, which the reader must call; it ends at once when the attempt is a hedge that lost. Under
// [WithIdempotency] it ends with the claim, which is when the call returns. If the caller's context is that of an attempt too,
// it needs a Detach of its own.
//
// A hedged operation whose result must be closed leaves that to context.AfterFunc after it has called Detach: then the results
// of losers, which nobody gets, are closed as well. Outside an attempt release does nothing.
func Detach(ctx context.Context) (release func()) {
	c, ok := ctx.Value(attemptKey{}).(*attemptCtx)
	if !ok {
		return func() {}
	}
	c.detach()
	return func() { c.close(canceled) }
}

type attemptKey struct{}

// attemptCtx is the context of one attempt. It is the only allocation of a successful call and is kept to 64 bytes: fields
// that only some operations need are in a signal, which is made on demand.
//
//	quiet ──Done is called──► armed ──parent, deadline, call's end──► ended
//	quiet ──call's end──────────────────────────────────────────────► ended
type attemptCtx struct {
	parent   context.Context
	options  *callOptions
	root     *attemptCtx   // the call's first attempt, which keeps the call's ID; nil in that attempt itself
	deadline time.Duration // of the attempt or the call, whichever comes first, since epoch; 0 for none
	signal   atomic.Pointer[signal]
	state    atomic.Uint32 // quiet → armed and all changes after it are made under the signal's mutex
	number   int32
	retry    int32
	hedge    int16
	overall  bool // deadline is the call's
	recorded bool // the first field of a recordedCall
}

const (
	quiet    uint32 = iota // Done has not been called
	armed                  // the signal's inner context is made
	canceled               // ended with context.Canceled
	expired                // ended with context.DeadlineExceeded
)

// signal is what a context needs once its Done, the call's ID or Detach is used.
type signal struct {
	mu       sync.Mutex
	id       string          // of the call, in its first attempt; "" until it is needed
	inner    context.Context // a child of the caller's, which ends when the attempt's context does; nil until Done is called
	cancel   context.CancelFunc
	timer    *time.Timer
	detached bool
}

var _ context.Context = (*attemptCtx)(nil)

// lock makes the signal if there is none, and takes its mutex.
func (c *attemptCtx) lock() *signal {
	s := c.signal.Load()
	if s == nil {
		c.signal.CompareAndSwap(nil, &signal{})
		s = c.signal.Load()
	}
	s.mu.Lock()
	return s
}

// Deadline implements context.Context.
func (c *attemptCtx) Deadline() (time.Time, bool) {
	parent, ok := c.parent.Deadline()
	end := c.end()
	if end == 0 {
		return parent, ok
	}
	start := epoch
	if c.options.plan.executor.options.World != nil {
		start = virtual.Epoch
	}
	if own := start.Add(end); !ok || own.Before(parent) {
		return own, true
	}
	return parent, true
}

// end returns when the context expires, or 0 if it does not.
func (c *attemptCtx) end() time.Duration {
	if c.deadline != 0 && c.isDetached() {
		return 0
	}
	return c.deadline
}

// isDetached reports whether the context has been detached.
func (c *attemptCtx) isDetached() bool {
	s := c.signal.Load()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.detached
}

// Value implements context.Context. The caller's capture is hidden: nested calls are not recorded into it.
func (c *attemptCtx) Value(key any) any {
	switch key.(type) {
	case attemptKey:
		return c
	case observe.CaptureKey:
		return nil
	}
	return c.parent.Value(key)
}

// Err implements context.Context.
func (c *attemptCtx) Err() error {
	if err := errOf(c.state.Load()); err != nil {
		return err
	}
	c.look()
	return errOf(c.state.Load())
}

// look ends the context if its parent has ended or its deadline has passed.
func (c *attemptCtx) look() {
	if err := c.parent.Err(); err != nil {
		c.close(stateOf(err))
	} else if at := c.end(); at != 0 && c.options.plan.executor.elapsed() >= at {
		c.closeAttached(expired)
	}
}

func errOf(state uint32) error {
	switch state {
	case canceled:
		return context.Canceled
	case expired:
		return context.DeadlineExceeded
	}
	return nil
}

func stateOf(err error) uint32 {
	if errors.Is(err, context.DeadlineExceeded) {
		return expired
	}
	return canceled
}

// Done implements context.Context.
func (c *attemptCtx) Done() <-chan struct{} {
	s := c.lock()
	defer s.mu.Unlock()
	c.arm(s)
	return s.inner.Done()
}

// arm makes the signal's inner context and the timer for the deadline. The caller holds the signal's mutex.
func (c *attemptCtx) arm(s *signal) {
	if s.inner != nil {
		return
	}
	s.inner, s.cancel = context.WithCancel(c.parent)
	if !c.state.CompareAndSwap(quiet, armed) { // the context has ended already
		s.cancel()
		return
	}
	if c.deadline != 0 && c.options.plan.executor.options.World == nil {
		s.timer = time.AfterFunc(c.deadline-time.Since(epoch), c.look)
	}
}

// AfterFunc lets package context attach children without a goroutine each.
func (c *attemptCtx) AfterFunc(f func()) (stop func() bool) {
	s := c.lock()
	defer s.mu.Unlock()
	c.arm(s)
	return context.AfterFunc(s.inner, f)
}

// close ends the context; only the first call counts.
func (c *attemptCtx) close(state uint32) {
	if !c.state.CompareAndSwap(quiet, state) { // usually nothing waits for the end
		c.closeArmed(c.lock(), state)
	}
}

// closeAttached is close for the end of the attempt or its deadline, which do not count once the operation has detached the context.
func (c *attemptCtx) closeAttached(state uint32) {
	if c.state.CompareAndSwap(quiet, state) {
		return
	}
	s := c.lock()
	if s.detached {
		s.mu.Unlock()
		return
	}
	c.closeArmed(s, state)
}

// closeArmed ends an armed context. The caller holds the signal's mutex, which closeArmed releases.
func (c *attemptCtx) closeArmed(s *signal, state uint32) {
	if !c.state.CompareAndSwap(armed, state) {
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.cancel()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// finish ends the context of a settled attempt, unless the operation has detached it.
func (c *attemptCtx) finish() { c.closeAttached(canceled) }

func (c *attemptCtx) detach() {
	s := c.lock()
	defer s.mu.Unlock()
	c.arm(s)                             // a detached context is never quiet, so that finish sees that it is detached
	s.detached = c.state.Load() == armed // one that has ended stays so, and its attempt has timed out
	if s.timer != nil {
		s.timer.Stop()
	}
}

// timedOut reports whether the attempt's own timeout has passed, as opposed to the call's.
func (c *attemptCtx) timedOut() bool {
	if c.overall {
		return false
	}
	at := c.end()
	return at != 0 && c.options.plan.executor.elapsed() >= at
}

func (c *attemptCtx) callID() string {
	if c.options.id != "" {
		return c.options.id
	}
	if c.root != nil {
		return c.root.callID()
	}
	if c.recorded {
		return string((*recordedCall)(unsafe.Pointer(c)).id[:])
	}
	s := c.lock()
	defer s.mu.Unlock()
	if s.id == "" {
		s.id = uuidv7.New(time.Now())
	}
	return s.id
}

// work identifies the call for reports that come after it has ended.
func (c *attemptCtx) work() observe.Work { return c.options.work(c.callID()) }

func (o *callOptions) work(id string) observe.Work {
	return observe.Work{
		ID: id, Key: o.plan.key, Surface: o.plan.surface, Operation: o.operation, Category: o.plan.policy.Category,
		IdempotencyKey: o.idempotencyKey, TenantID: o.tenantID, CorrelationID: o.correlationID, TraceID: o.traceID,
		Attributes: o.attributes,
	}
}
