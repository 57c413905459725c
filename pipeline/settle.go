package pipeline

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// giveBack is a delivery that the source gets back.
type giveBack struct {
	delivery Delivery
	delay    time.Duration
	cause    error
}

const (
	// settleTimeout is how long a source may take for one extension, and, but for half of it, for one settlement.
	settleTimeout = 30 * time.Second
	// mostUnsettled is how many acknowledgements may wait before fetching does.
	mostUnsettled = 4096
)

// redelivery is the wait of failed transactions whose step has no backoff: without one they would come back at once.
var redelivery = policy.Retry{
	InitialBackoff: time.Second, BackoffMultiplier: 2, MaxBackoff: time.Minute, Jitter: policy.JitterNone,
}

// redeliveryDelay is how long a failed transaction stays away: the delay of its step's policy by the number of deliveries.
func (r *run) redeliveryDelay(d Delivery) time.Duration {
	p := r.executor.Policy(r.outside, r.keys.work)
	retry, seed := &p.Retry, decision.StepSeed(d.Transaction.id, r.workStep)
	if retry.InitialBackoff <= 0 {
		retry = &redelivery
	}
	return decision.Delay(retry, seed, max(d.Count-1, 0))
}

// ack puts a delivery on the settler's list. The caller holds mu.
func (r *run) ack(d Delivery) {
	if r.acker == nil {
		return
	}
	if len(r.acks) == 0 {
		r.unsettle.Signal()
	}
	r.acks = append(r.acks, d)
}

// nack puts a delivery on the settler's list. The caller holds mu.
func (r *run) nack(b giveBack) {
	if r.nacker == nil {
		return
	}
	r.nacks = append(r.nacks, b)
	r.unsettle.Signal()
}

func (r *run) unsettled() int { return len(r.acks) + len(r.nacks) + r.settling }

// settle tells the source what has ended, everything that came together since it was told last at once. It runs until the
// run is closed and everything is told.
func (r *run) settle() {
	var acks []Delivery
	var nacks []giveBack
	p := patience{outside: r.outside}
	defer p.end()
	for {
		acks, nacks = r.swap(acks[:0], nacks[:0])
		if len(acks)+len(nacks) == 0 {
			return
		}
		if len(acks) > 0 {
			r.acknowledge(p.context(), acks)
		}
		for _, b := range nacks {
			r.nackNow(p.context(), b)
		}
		clear(acks)
		clear(nacks)
	}
}

// patience has a context for each call of a source that settles, the same one while more than half of its time is left:
// another for each would cost more than all the rest of a settlement.
type patience struct {
	outside context.Context
	ctx     context.Context
	cancel  context.CancelFunc
	until   time.Duration // since epoch
}

func (p *patience) context() context.Context {
	now := time.Since(epoch)
	if p.ctx != nil && p.until-now >= settleTimeout/2 {
		return p.ctx
	}
	p.end()
	p.ctx, p.cancel = context.WithTimeout(p.outside, settleTimeout)
	p.until = now + settleTimeout
	return p.ctx
}

func (p *patience) end() {
	if p.cancel != nil {
		p.cancel()
	}
}

// swap takes what is to be settled in exchange for empty lists, and waits until there is something or never will be.
func (r *run) swap(acks []Delivery, nacks []giveBack) ([]Delivery, []giveBack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settling = 0
	r.hungry.Signal()
	for len(r.acks)+len(r.nacks) == 0 && !r.closed {
		r.unsettle.Wait()
	}
	r.acks, acks = acks, r.acks
	r.nacks, nacks = nacks, r.nacks
	r.settling = len(acks) + len(nacks)
	return acks, nacks
}

func (r *run) acknowledge(ctx context.Context, done []Delivery) {
	for i, err := range r.acker.Ack(ctx, done) {
		if err != nil && i < len(done) {
			r.unsettledBy("acknowledgement", done[i], err)
		}
	}
}

func (r *run) nackNow(ctx context.Context, b giveBack) {
	if err := r.nacker.Nack(ctx, b.delivery, b.delay, b.cause); err != nil {
		r.unsettledBy("negative acknowledgement", b.delivery, err)
	}
}

func (r *run) unsettledBy(what string, d Delivery, err error) {
	r.log.Warn("pipeline: the source did not take an "+what+"; it may deliver the transaction again",
		r.about(context.Background(), d.Transaction, observe.LogError, err)...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Unsettled++
}

// extend keeps the deliveries that wait, run and are being settled, until the run is closed.
func (r *run) extend() {
	if r.extender == nil || r.extender.ExtendEvery() <= 0 {
		return
	}
	tick := time.NewTicker(r.extender.ExtendEvery())
	defer tick.Stop()
	for {
		select {
		case <-r.closing:
			return
		case <-tick.C:
		}
		held := r.kept()
		if len(held) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(r.outside, settleTimeout)
		for i, err := range r.extender.Extend(ctx, held) {
			if err != nil && i < len(held) {
				r.log.Warn("pipeline: a delivery could not be extended; the source may deliver it again meanwhile",
					r.about(context.Background(), held[i].Transaction, observe.LogError, err)...)
			}
		}
		cancel()
	}
}

// kept lists the deliveries that the engine answers for, except those whose settlement is on its way.
func (r *run) kept() []Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]Delivery, 0, len(r.workers)+len(r.buffer))
	for w := range r.workers {
		if w.busy {
			list = append(list, w.delivery)
		}
	}
	list = append(append(list, r.buffer...), r.freed...)
	for _, held := range r.held {
		list = append(list, held...)
	}
	return append(list, r.acks...)
}
