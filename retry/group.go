package retry

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/budget"
	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// racer is one attempt of a hedged group. It runs on its own goroutine.
//
//	running ──its goroutine ends first──► delivered: the coordinator takes its result from the channel
//	running ──the group is decided──────► lost ──its goroutine ends──► gone: releases what it holds, reports a panic
type racer[T any] struct {
	launch
	state      atomic.Int32
	unrecorded bool // it lost, and has no record yet; only the coordinator uses it
	value      T
	err        error
	panic      *PanicError
}

const (
	running int32 = iota
	delivered
	lost
	gone
)

// hedgedGroup is a hedged group in progress. Only the coordinator, on the caller's goroutine, uses it. Its methods take the
// run as an argument, so that the run stays on the stack.
type hedgedGroup[T any, O operation[T]] struct {
	racers   []*racer[T]
	results  chan *racer[T]
	group    decision.Group
	ended    []int // attempts in the order in which they ended
	hedges   int
	winner   *racer[T]
	judged   judgement // of the attempt that decides
	finished bool      // nothing can panic any longer
}

// group runs the operation and starts hedges while it is slow.
func group[T any, O operation[T]](r *run, op O, last T) (value T, action decision.Action) {
	h := &r.plan.policy.Hedge
	g := hedgedGroup[T, O]{
		results: make(chan *racer[T], 1+h.MaxHedges),
		group:   decision.Group{CancelOnFirstTerminal: h.CancelOnFirstTerminal},
	}
	if r.retry == 0 {
		r.plan.hedge.load.Call()
	}
	defer g.unwind(r)
	if denied := g.launch(r, op, budget.KindRetry); denied != "" {
		action = r.refused(denied)
		g.finished = true
		return last, action
	}
	if r.retry == 0 && r.plan.hedge.earner != nil {
		r.earn()
	}
	g.coordinate(r, op)
	if g.winner != nil {
		value = g.winner.value
	}
	outcome, deciding := g.group.Outcome()
	g.judged.outcome = outcome
	g.abandon(r)
	action = r.settle(&g.judged, g.ended, deciding)
	g.finished = true
	return value, action
}

// unwind cleans up after an attempt or user code that panicked.
func (g *hedgedGroup[T, O]) unwind(r *run) {
	if !g.finished {
		g.abandon(r)
	}
}

// coordinate launches hedges and takes results until the group is decided.
func (g *hedgedGroup[T, O]) coordinate(r *run, op O) {
	runtime.Gosched() // a quick primary ends before a timer is set
	select {
	case l := <-g.results:
		if g.take(r, op, l) {
			return
		}
	default:
	}
	var a alarms
	defer a.stop()
	if wait, ok := g.delay(r); ok {
		a.setHedge(r, wait)
	}
	a.setEnd(r)
	for {
		l, due := awaitNext(r, &a, g.results)
		switch {
		case l != nil:
			if g.take(r, op, l) {
				return
			}
		case !due:
			g.interrupt(r, op, r.endReason())
			return
		default:
			if g.hedge(r, op); r.panicReason != "" {
				g.interrupt(r, op, r.panicReason)
				return
			}
			if wait, ok := g.delay(r); ok {
				a.setHedge(r, wait)
			}
		}
	}
}

// launch admits an attempt and starts it.
func (g *hedgedGroup[T, O]) launch(r *run, op O, kind budget.AttemptKind) (denied policy.Reason) {
	l := &racer[T]{}
	l.hedge = g.hedges
	defer func() {
		if l.ctx == nil { // denied, or user code panicked
			r.free(&l.launch, circuit.Ignored)
		}
	}()
	if denied = r.admit(&l.launch, kind); denied != "" {
		return denied
	}
	g.racers = append(g.racers, l)
	g.group.Launch()
	r.e.losers.add()
	e, results := r.e, g.results // so that no closure holds the run
	if w := e.options.World; w != nil {
		w.Go(func() { race(e, l, op, results) })
	} else {
		go race(e, l, op, results)
	}
	return ""
}

// race runs the operation and delivers its result, or cleans up if the group has been decided.
func race[T any, O operation[T]](e *Executor, l *racer[T], op O, results chan<- *racer[T]) {
	defer e.losers.done()
	returned := false
	defer func() {
		if !returned {
			l.panic = &PanicError{Part: "operation", Value: recover(), Stack: debug.Stack()}
			if l.panic.Value == nil {
				l.panic.Value = "the operation ended its goroutine"
			}
		}
		if l.state.CompareAndSwap(running, delivered) {
			results <- l
			e.wake(results)
			return
		}
		l.giveUp(e)
	}()
	l.value, l.err = op.do(l.ctx)
	returned = true
}

// giveUp cleans up a loser whose group was decided without it.
func (l *racer[T]) giveUp(e *Executor) {
	l.state.Store(gone)
	l.place.leave(e, 0, 0)
	if release := l.grant.release; release != nil {
		e.safely(release)
	}
	if l.panic != nil {
		e.report(l.ctx.parent, l.ctx.work(), &observe.Report{
			Reason: policy.ReasonPanicInOperation, Attempt: l.number, Panic: l.panic.Value, Stack: l.panic.Stack,
			Detail: "a hedged attempt panicked after its group was decided",
		})
	}
}

// take adds a delivered attempt to the group and reports whether the group is decided.
func (g *hedgedGroup[T, O]) take(r *run, op O, l *racer[T]) bool {
	if l.panic != nil {
		r.abort(&l.launch)
		panic(l.panic)
	}
	j := succeeded
	if r.judges(l.err) {
		j = judgement{}
		r.judge(&l.launch, op.box(l.value), l.err, &j)
	}
	r.conclude(&l.launch, &j, l.err)
	g.ended = append(g.ended, l.number)
	decided := g.group.End(l.number, j.outcome)
	if _, deciding := g.group.Outcome(); deciding == l.number {
		g.winner, g.judged = l, j
		r.last = l.err
	} else if g.winner != nil {
		r.last = g.winner.err
	}
	return decided
}

// delay asks the trigger how long to wait before the next hedge.
func (g *hedgedGroup[T, O]) delay(r *run) (wait time.Duration, ok bool) {
	h := &r.plan.policy.Hedge
	if g.hedges >= h.MaxHedges || !g.group.MayHedge() {
		return 0, false
	}
	if r.e.options.RecoverPanics {
		defer r.guard("trigger", policy.ReasonPanicInTrigger, func() { wait, ok = 0, true })
	}
	wait, ok = r.plan.hedge.trigger.Delay(*h, r.plan.hedge.digest)
	return max(wait, 0), ok
}

// hedge launches one more attempt. If the hedge is denied, that is recorded and the group goes on without it.
func (g *hedgedGroup[T, O]) hedge(r *run, op O) {
	if r.panicReason != "" || !g.group.MayHedge() {
		return
	}
	g.hedges++
	if !r.plan.hedge.load.TryHedge(r.plan.policy.Hedge.MaxExtraLoad) {
		r.launches++
		if r.recorded() {
			l := launch{number: r.launches, hedge: g.hedges, started: r.rec.now(r.e)}
			if b := r.plan.breaker; b != nil {
				l.circuit = b.State(r.e.elapsed())
			}
			r.rec.denied(r, &l, policy.ReasonMaxExtraLoad)
		}
		return
	}
	g.launch(r, op, budget.KindHedge)
}

// interrupt ends the group because the caller's context or the call's timeout ended, or user code panicked. Results that
// have been delivered by then still count.
func (g *hedgedGroup[T, O]) interrupt(r *run, op O, reason policy.Reason) {
	for len(g.results) > 0 {
		if g.take(r, op, <-g.results) {
			return
		}
	}
	g.group = decision.Group{CancelOnFirstTerminal: true}
	g.group.Launch()
	g.winner, g.judged = nil, notJudged(reason)
	if r.panicReason == "" {
		g.judged.facts = decision.Facts{Failed: true, Ended: reason}
		g.judged.outcome, g.judged.rule = decision.Judge(&r.plan.policy.Retry, &g.judged.facts)
	}
	g.group.End(g.racers[0].number, g.judged.outcome)
}

// abandon cancels the attempts that a decided group does not need. They run until they notice that, and then release their
// grants and places; breaker tickets are released at once. Their records come last, because an observer may panic at each.
func (g *hedgedGroup[T, O]) abandon(r *run) {
	for _, l := range g.racers {
		if l.settled {
			continue
		}
		l.settled = true
		l.ctx.close(canceled)
		r.e.wake(l.ctx)
		release, held := l.grant.release, l.place
		l.grant.release, l.place = nil, place{}
		r.free(&l.launch, circuit.Ignored)
		l.grant.release, l.place = release, held
		if l.state.CompareAndSwap(running, lost) {
			watchLoser(r.e, l)
		} else {
			l.giveUp(r.e) // its result is in the channel and is not needed
		}
		l.unrecorded = r.recorded()
	}
	for _, l := range g.racers {
		if l.unrecorded {
			l.unrecorded = false
			j := notJudged(policy.ReasonCanceledInternal)
			r.rec.ended(r, &l.launch, &j, nil)
		}
	}
}

// watchLoser reports a loser that ignores the end of its context.
func watchLoser[T any](e *Executor, l *racer[T]) {
	if e.options.Observer == nil {
		return
	}
	time.AfterFunc(overrun, func() {
		if l.state.Load() == lost {
			e.report(l.ctx.parent, l.ctx.work(), &observe.Report{
				Reason: policy.ReasonHedgeOverrun, Attempt: l.number,
				Detail: "a hedged attempt is still running more than a second after it lost; it should obey its context",
			})
		}
	})
}
