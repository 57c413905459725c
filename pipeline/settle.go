package pipeline

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

// settler queues settlements for the source. Its goroutine sends all that have gathered since its last call together. run.mu
// guards it.
type settler struct {
	wake    sync.Cond // the goroutine waits here
	acks    []Delivery
	nacks   []giveBack
	sending int             // settlements taken from the queue that the source has not answered yet
	closed  bool            // the goroutine ends when the queue is empty
	done    <-chan struct{} // closed when the goroutine has ended or is abandoned, for the extender
	end     func()          // closes done
	// extension is the context of the last extension, which ends with it; nil before the first.
	extension context.Context
}

// pending counts the settlements that the source has not taken yet.
func (s *settler) pending() int { return len(s.acks) + len(s.nacks) + s.sending }

// nackable counts the negative acknowledgements that can be sent now. They wait for an extension in progress, which would replace their
// delays if it came afterwards.
func (s *settler) nackable() int {
	if s.extension != nil && s.extension.Err() == nil {
		return 0
	}
	return len(s.nacks)
}

// giveBack is a delivery to give back to the source.
type giveBack struct {
	delivery Delivery
	delay    time.Duration
	cause    error
}

const (
	// settleTimeout bounds one extension. A settlement gets between half of it and all of it.
	settleTimeout = 30 * time.Second
	// maxUnsettled is the number of pending settlements above which the engine does not fetch.
	maxUnsettled = 4096
)

// redelivery is the delay of failed transactions whose step has no backoff. Without a delay they would come back at once.
var redelivery = policy.Retry{
	InitialBackoff: time.Second, BackoffMultiplier: 2, MaxBackoff: time.Minute, Jitter: policy.JitterNone,
}

// redeliveryDelay returns the delay before a failed transaction is delivered again, by its step's policy and the number of
// deliveries. It is no shorter than the errors ask for, up to max_pushback.
func (r *run) redeliveryDelay(d Delivery, err *TransactionError) time.Duration {
	p := r.executor.Policy(r.endless, r.steps.keys.work)
	by, seed := &p.Retry, decision.StepSeed(d.Transaction.id, r.steps.work)
	if by.InitialBackoff <= 0 {
		by = &redelivery
	}
	delay := decision.Delay(by, seed, max(d.Count-1, 0))
	for ; err != nil; err = err.Earlier {
		if failed, ok := errors.AsType[*retry.Error](err.Cause); ok {
			delay = max(delay, min(failed.Outcome.Pushback, p.Retry.MaxPushback))
		}
	}
	return delay
}

// ack queues an acknowledgement. The caller holds mu.
func (r *run) ack(d Delivery) {
	if r.acker == nil {
		return
	}
	if len(r.settler.acks) == 0 {
		r.settler.wake.Signal()
	}
	r.settler.acks = append(r.settler.acks, d)
}

// nack queues a negative acknowledgement. The caller holds mu.
func (r *run) nack(b giveBack) {
	if r.nacker == nil {
		return
	}
	r.settler.nacks = append(r.settler.nacks, b)
	r.settler.wake.Signal()
}

// settle sends queued settlements to the source until the queue is closed and empty.
func (r *run) settle() {
	var acks []Delivery
	c := settleContext{parent: r.endless}
	defer c.end()
	for {
		var nacks int
		acks, nacks = r.swap(acks)
		if len(acks)+nacks == 0 {
			return
		}
		if len(acks) > 0 {
			r.acknowledge(c.current(), acks)
		}
		for range nacks {
			r.sendNack(&c)
		}
		clear(acks)
	}
}

// swap waits until settlements can be sent. It exchanges the queued acknowledgements for the list, which the source has answered, and
// returns the number of negative acknowledgements too. It returns none when the queue is closed and empty.
func (r *run) swap(acks []Delivery) (_ []Delivery, nacks int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.settler
	s.sending -= len(acks)
	r.intake.wake.Signal()
	for len(s.acks)+s.nackable() == 0 && (!s.closed || len(s.nacks) > 0) {
		s.wake.Wait()
	}
	s.acks, acks = acks[:0], s.acks
	s.sending += len(acks)
	return acks, s.nackable()
}

// sendNack sends a queued negative acknowledgement, unless another goroutine has sent it or an extension has begun.
func (r *run) sendNack(c *settleContext) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.settler
	if s.nackable() == 0 {
		return
	}
	b := s.nacks[0]
	s.nacks[0], s.nacks = giveBack{}, s.nacks[1:]
	s.sending++
	defer func() { s.sending-- }()
	r.mu.Unlock()
	defer r.mu.Lock()
	r.nackNow(c.current(), b)
}

// closeSettler signals the settler that there are no further settlements.
func (r *run) closeSettler() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settler.closed = true
	r.settler.wake.Broadcast()
}

// giveBack ends deliveries that were never started, or whose worker never returned.
func (r *run) giveBack(list []Delivery) {
	r.mu.Lock()
	r.summary.Redelivered += len(list)
	r.mu.Unlock()
	nackNext := func(n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, d := range list[:n] {
			r.nack(giveBack{delivery: d})
		}
		list = list[n:]
		r.settleLate()
	}
	defer func() { nackNext(len(list)) }() // the function of WithEnded may end this goroutine
	for len(list) > 0 {
		r.flow(observe.Flow{Outcome: string(Redelivered)})
		r.callEnded(Ended{Delivery: list[0], Outcome: Redelivered, Err: ErrShutdown})
		nackNext(1)
	}
}

// settleLate sends what was queued after the settler has ended: an abandoned fetch, or a function of [WithEnded] that outlasted the
// grace period, has returned after all. The caller holds mu, which settleLate gives up meanwhile.
func (r *run) settleLate() {
	if r.settler.closed {
		r.mu.Unlock()
		defer r.mu.Lock()
		r.settle()
	}
}

// settleContext makes the contexts of settlements. It reuses a context while more than half of its time is left, because a
// new context for each would cost more than the rest of a settlement.
type settleContext struct {
	parent context.Context
	ctx    context.Context
	cancel context.CancelFunc
	until  time.Duration // since epoch
}

func (c *settleContext) current() context.Context {
	now := time.Since(epoch)
	if c.ctx != nil && c.until-now >= settleTimeout/2 {
		return c.ctx
	}
	c.end()
	c.ctx, c.cancel = context.WithTimeout(c.parent, settleTimeout)
	c.until = now + settleTimeout
	return c.ctx
}

func (c *settleContext) end() {
	if c.cancel != nil {
		c.cancel()
	}
}

func (r *run) acknowledge(ctx context.Context, done []Delivery) {
	for i, err := range caught(len(done), func() []error { return r.acker.Ack(ctx, done) }) {
		if err != nil && i < len(done) {
			r.reportUnsettled("acknowledgement", done[i], err)
		}
	}
}

func (r *run) nackNow(ctx context.Context, b giveBack) {
	errs := caught(1, func() []error { return []error{r.nacker.Nack(ctx, b.delivery, b.delay, b.cause)} })
	if errs[0] != nil {
		r.reportUnsettled("negative acknowledgement", b.delivery, errs[0])
	}
}

// caught calls a source, whose panic becomes the error of all n deliveries.
func caught(n int, call func() []error) (errs []error) {
	defer func() {
		if v := recover(); v != nil {
			errs = slices.Repeat([]error{&retry.PanicError{Part: "source", Value: v, Stack: debug.Stack()}}, n)
		}
	}()
	return call()
}

func (r *run) reportUnsettled(kind string, d Delivery, err error) {
	r.log.Warn("pipeline: the source refused an "+kind+"; it may deliver the transaction again",
		r.about(context.Background(), d.Transaction, observe.LogError, err)...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Unsettled++
}

// extend extends the deliveries that are waiting, running or queued for settlement, until the settler has ended or is abandoned.
func (r *run) extend() {
	if r.extender == nil {
		return
	}
	every := time.Duration(0)
	for _, err := range caught(1, func() []error { every = r.extender.ExtendEvery(); return nil }) {
		r.log.Warn("pipeline: deliveries cannot be extended", "pipeline", r.name, observe.LogError, err)
	}
	if every <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-r.settler.done:
			return
		case <-tick.C:
		}
		r.extendHeld()
		tick.Reset(every) // in between, negative acknowledgements are sent
	}
}

func (r *run) extendHeld() {
	ctx, cancel := context.WithTimeout(r.endless, settleTimeout)
	defer cancel()
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.settler.wake.Broadcast()
	})
	r.mu.Lock()
	held := r.unsettled()
	r.settler.extension = ctx
	r.mu.Unlock()
	if len(held) == 0 {
		return
	}
	errs := caught(len(held), func() []error { return r.extender.Extend(ctx, held) })
	still := map[*Transaction]bool{} // not settled meanwhile
	r.mu.Lock()
	for _, d := range r.unsettled() {
		still[d.Transaction] = true
	}
	r.mu.Unlock()
	for i, err := range errs {
		if err != nil && i < len(held) && still[held[i].Transaction] {
			r.log.Warn("pipeline: a delivery could not be extended; the source may deliver it again meanwhile",
				r.about(context.Background(), held[i].Transaction, observe.LogError, err)...)
		}
	}
}

// watchLag notifies the observer of the source's lag, until the settler has ended or is abandoned.
func (r *run) watchLag() {
	if r.lagger == nil || r.observer == nil {
		return
	}
	tick := time.NewTicker(LagEvery)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(r.fetches, settleTimeout)
		n := int64(-1)
		errs := caught(1, func() []error {
			var err error
			n, err = r.lagger.Lag(ctx)
			return []error{err}
		})
		if errs[0] == nil && n >= 0 { // a source that fails fails its fetches too, which are reported
			r.flow(observe.Flow{Lag: &n})
		} else if _, panicked := errors.AsType[*retry.PanicError](errs[0]); panicked {
			r.log.Warn("pipeline: the source's lag could not be read", "pipeline", r.name, observe.LogError, errs[0])
		}
		cancel()
		select {
		case <-r.settler.done:
			return
		case <-tick.C:
		}
	}
}

// unsettled lists the deliveries that the engine holds, except those whose settlement is being sent. The caller holds mu.
func (r *run) unsettled() []Delivery {
	list := r.buffer.all()
	for w := range r.pool.workers {
		if w.busy || w.telling {
			list = append(list, w.delivery)
		}
	}
	for _, b := range r.settler.nacks {
		list = append(list, b.delivery)
	}
	return append(list, r.settler.acks...)
}
