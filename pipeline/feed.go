package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
)

// feed gets transactions as long as they are needed and there are any.
func (r *run) feed(more feeder) {
	defer r.feedEnded()
	for r.needed() {
		r.policies.refresh(r.fetches)
		r.resize()
		l := r.policies.loop()
		room := r.room(l)
		if room == 0 {
			return
		}
		got, end, err := more(r.fetches, r, room)
		came := len(got)
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
		case len(got) < came:
			r.fail(&ContractError{Part: "source", Problem: "it returned a delivery without a transaction"})
			return
		case end:
			return
		case len(got) > 0:
			r.empties(0)
		case !l.streaming:
			return
		default:
			r.empties(r.empty + 1)
			wait := decision.Delay(&l.empty, 0, r.empty-1)
			r.flow(observe.Flow{EmptyWait: wait})
			if !pause(r.fetches, wait) {
				return
			}
		}
	}
}

// needed waits until more is wanted. It is false when nothing more ever will be.
func (r *run) needed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.ended && !r.wanted() {
		r.hungry.Wait()
	}
	return !r.ended
}

func (r *run) wanted() bool {
	buffered := len(r.buffer) + len(r.freed)
	if r.unsettled() > mostUnsettled {
		return false
	}
	if r.chunked {
		return buffered+r.flying+r.holding == 0
	}
	return buffered < r.free() && r.holding <= r.policies.loop().batch.Size // each that is free takes one
}

// room is how many transactions the policy allows to fetch.
func (r *run) room(l *loop) int {
	size := max(l.batch.Size, 1)
	if l.limit == 0 {
		return size
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(size, max(l.limit-r.summary.Fetched, 0))
}

// received takes what came, also where that is more than was asked for, or too late. What is too much is given back where
// the source takes it, else it is worked on.
func (r *run) received(got []Delivery, room int) (surplus int) {
	if len(got) == 0 {
		return 0
	}
	surplus = max(len(got)-room, 0)
	r.mu.Lock()
	r.summary.Fetched += len(got)
	back := got
	switch {
	case r.stopped:
		got = nil
	case surplus > 0 && r.nacker != nil:
		got, back = got[:room], got[room:]
	default:
		back = nil
	}
	if len(r.buffer) == 0 {
		r.buffer = got
	} else {
		r.buffer = append(r.buffer, got...)
	}
	r.wake()
	r.mu.Unlock()
	r.giveBack(back)
	return surplus
}

func (r *run) empties(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.empty = n
}

// retried counts attempts of fetching beyond the first.
func (r *run) retried(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.summary.Retries += max(n, 0)
}

func (r *run) feedEnded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.feeding = false
	r.finishFeed()
	r.over()
}

// pause waits, and is false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

const (
	healthyFetch  = time.Minute      // of a fetch without a timeout
	healthyMargin = 10 * time.Second // for the source to obey its context
)

// fetchBegins notes that the source has been asked, and how long it may take.
func (r *run) fetchBegins(patience time.Duration) {
	r.patience.Store(int64(patience + healthyMargin))
	r.fetching.Store(int64(time.Since(epoch)) | 1) // never 0
}

func (r *run) fetchEnds() { r.fetching.Store(0) }

func (r *run) healthy() error {
	since := r.fetching.Load()
	if since == 0 {
		return nil
	}
	took := time.Since(epoch) - time.Duration(since)
	if patience := time.Duration(r.patience.Load()); took > patience {
		return fmt.Errorf("pipeline: %s %s: a fetch has been running for %v, longer than %v",
			r.kind, r.name, took.Round(time.Second), patience)
	}
	return nil
}
