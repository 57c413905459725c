package pipeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/observe"
)

// intake is the state of the feeder. run.mu guards it.
type intake struct {
	wake    sync.Cond // the feeder waits here until a fetch is wanted
	feeding bool      // the feeder's goroutine has not ended
	ended   bool      // there are no further fetches
	empty   int       // empty fetches in a row
}

// feeder gets the next transactions, at most max. end reports that there will never be more. Deliveries that come with an
// error are not lost.
type feeder func(ctx context.Context, r *run, max int) (got []Delivery, end bool, err error)

// feed fills the buffer as workers become free, until the input or the run ends.
func (r *run) feed(more feeder) {
	defer r.feedEnded()
	for r.needed() {
		if r.policies.refresh(r.fetches); !r.resize() {
			continue
		}
		l := r.policies.loop()
		room := r.room(l)
		if room == 0 {
			return
		}
		got, end, err := more(r.fetches, r, room)
		returned := len(got)
		got = slices.DeleteFunc(got, func(d Delivery) bool { return d.Transaction == nil })
		if len(got) > 0 || err == nil && !end {
			r.flow(observe.Flow{Fetch: true, Fetched: len(got)})
		}
		surplus := r.received(got, room)
		switch {
		case err != nil:
			if r.fetches.Err() == nil {
				r.fail(err)
			}
			return
		case surplus > 0:
			r.fail(&ContractError{Part: "source", Problem: fmt.Sprintf("it returned %d transactions where %d were asked for", len(got), room)})
			return
		case len(got) < returned:
			r.fail(&ContractError{Part: "source", Problem: "it returned a delivery without a transaction"})
			return
		case end:
			return
		case len(got) > 0:
			r.countEmpty(0)
		case !l.streaming:
			return
		default:
			r.countEmpty(r.intake.empty + 1)
			d := decision.Delay(&l.empty, 0, r.intake.empty-1)
			r.flow(observe.Flow{EmptyWait: d})
			if wait.For(r.fetches, d) != nil {
				return
			}
		}
	}
}

// reread is how often the feeder reads a live policy while it waits: tasks that hang free no worker, a higher concurrency does.
const reread = 10 * time.Second

// needed waits until a fetch is wanted, or a live policy is to be read. It returns false when there will be no further fetch.
func (r *run) needed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.intake.ended || r.wanted() {
		return !r.intake.ended
	}
	due := false
	if r.policies.live != nil {
		defer time.AfterFunc(reread, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			due = true
			r.intake.wake.Signal()
		}).Stop()
	}
	for !r.intake.ended && !r.wanted() && !due {
		r.intake.wake.Wait()
	}
	return !r.intake.ended
}

// wanted reports whether a fetch should run now: for a consumer, when a worker would otherwise have nothing to do; for a
// producer, when the last chunk has ended. The caller holds mu.
func (r *run) wanted() bool {
	buffered, held := r.buffer.waiting(), r.buffer.holding
	if r.settler.pending() > maxUnsettled {
		return false
	}
	if r.kind == producer {
		return buffered+r.pool.inFlight+held == 0
	}
	return buffered < r.pool.free() && held <= r.policies.loop().batch.Size
}

// room returns how many transactions the policy allows to fetch.
func (r *run) room(l *loop) int {
	size := max(l.batch.Size, 1)
	if l.limit == 0 {
		return size
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(size, max(l.limit-r.summary.Fetched, 0))
}

// received buffers the deliveries of a fetch. If there are more than room, it gives the surplus back if the source supports
// that; otherwise the surplus is processed. After the run has stopped, it gives all of them back.
func (r *run) received(got []Delivery, room int) (surplus int) {
	if len(got) == 0 {
		return 0
	}
	surplus = max(len(got)-room, 0)
	r.mu.Lock()
	r.summary.Fetched += len(got)
	var back []Delivery
	switch {
	case r.stopped:
		got, back = nil, got
	case surplus > 0 && r.nacker != nil:
		got, back = got[:room], got[room:]
	}
	r.buffer.put(got)
	r.wake()
	r.mu.Unlock()
	r.giveBack(back)
	return surplus
}

// countEmpty sets the number of consecutive empty fetches. Only the feeder writes the count, so it may read it without mu.
func (r *run) countEmpty(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intake.empty = n
}

// countRetries adds fetch attempts beyond the first.
func (r *run) countRetries(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Retries += max(n, 0)
}

// endFetching ends the intake. Fetched deliveries are still processed.
func (r *run) endFetching() {
	r.cancelFetches()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endIntake()
}

// endIntake signals workers and feeder that there are no further fetches. The caller holds mu.
func (r *run) endIntake() {
	r.intake.ended = true
	r.pool.idle.Broadcast()
	r.intake.wake.Broadcast()
}

func (r *run) feedEnded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intake.feeding = false
	r.endIntake()
	r.checkDone()
}

const (
	healthyFetch  = time.Minute      // the expected time of a fetch without a timeout
	healthyMargin = 10 * time.Second // more, for the source to notice that its context has ended
)

// fetchWatch detects a fetch that hangs.
type fetchWatch struct {
	since atomic.Int64 // when the running attempt began, since epoch; 0 for none
	limit atomic.Int64 // how long it may take
}

func (f *fetchWatch) begin(limit time.Duration) {
	f.limit.Store(int64(limit + healthyMargin))
	f.since.Store(int64(time.Since(epoch)) | 1) // never 0
}

func (f *fetchWatch) end() { f.since.Store(0) }

func (r *run) healthy() error {
	since := r.fetch.since.Load()
	if since == 0 {
		return nil
	}
	took := time.Since(epoch) - time.Duration(since)
	if limit := time.Duration(r.fetch.limit.Load()); took > limit {
		return fmt.Errorf("pipeline: %s %s: a fetch has been running for %v, longer than %v",
			r.kind, r.name, took.Round(time.Second), limit)
	}
	return nil
}
