package job

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

const (
	// maintainEvery bounds how late a lost lease is taken back; due jobs of this worker's own making are known earlier.
	maintainEvery = time.Second
	maintainPause = 20 * time.Millisecond // between looks at a job that is due and was not made ready
	maintainLimit = 1000
	leadEvery     = 3 * time.Second
	leadFor       = 6 * time.Second // and up to leadEvery until another looks: within 10 s of the leader's end
)

// scheduled remembers when a job that was just settled is due again.
func (w *Worker) scheduled(s Settlement) {
	if s.Delay <= 0 {
		if s.Kind == KindRetry || s.Kind == KindSnooze || s.Kind == KindRelease || s.Kind == KindRefuse {
			signal(w.wake)
		}
		return
	}
	due := time.Now().Add(s.Delay)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nextDue.IsZero() || due.Before(w.nextDue) {
		w.nextDue = due
		signal(w.due)
	}
}

// extend keeps the leases of running jobs alive, and hears of operators who cancel and of leases that are lost.
func (w *Worker) extend(ctx context.Context) {
	tick := time.NewTicker(w.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.cancels:
			if !gather(ctx) {
				return
			}
		}
		w.mu.Lock()
		leases := make([]Ref, 0, len(w.running))
		for _, run := range w.running {
			leases = append(leases, run.record.Ref())
		}
		w.mu.Unlock()
		if len(leases) == 0 {
			w.outage.works("extend")
			continue
		}
		// In order, as settlements are, so that stores with locks on rows see no circles. A store that hangs is asked again.
		slices.SortFunc(leases, func(a, b Ref) int { return strings.Compare(a.ID, b.ID) })
		patience, cancel := context.WithTimeout(ctx, w.lease/3)
		errs := w.store.Extend(patience, leases, w.lease)
		cancel()
		var failed error
		for i, err := range errs {
			if !w.extended(leases[i], err) {
				failed = err
			}
		}
		w.outage.tell("extend", failed)
	}
}

// gather waits a moment for more requests of the same operator, so that many of them cost few extensions. It reports
// whether ctx is alive.
func gather(ctx context.Context) bool {
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// extended takes note of an extension's answer, and reports whether it is one.
func (w *Worker) extended(lease Ref, err error) bool {
	if err == nil {
		return true
	}
	w.mu.Lock()
	run, ok := w.running[lease.ID]
	w.mu.Unlock()
	if !ok || run.record.Fence != lease.Fence {
		return true // settled meanwhile
	}
	switch {
	case errors.Is(err, ErrCancelRequested):
		run.cancel(errCancelled)
	case final(err):
		w.log.Warn("job: a lease was lost", "job", lease.ID, "error", err)
		run.cancel(errLeaseLost)
	default:
		return false
	}
	return true
}

// maintain makes due jobs ready and takes lost leases back, every second and when a job is known to be due.
func (w *Worker) maintain(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	var done Maintained
	var due time.Time // of the store's next job, by this process's clock
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.due:
			t.Reset(w.nextMaintenance(done, due))
			continue
		case <-t.C:
		}
		w.mu.Lock()
		w.nextDue = time.Time{}
		w.mu.Unlock()
		var err error
		patience, cancel := context.WithTimeout(ctx, w.lease)
		done, err = w.store.Maintain(patience, Maintenance{Limit: maintainLimit})
		cancel()
		if ctx.Err() == nil {
			w.outage.tell("maintain", err)
		}
		if err == nil {
			w.lastAnswer.Store(time.Now().UnixNano())
		}
		if due = (time.Time{}); !done.NextDue.IsZero() {
			due = time.Now().Add(done.NextDue.Sub(done.Now))
		}
		w.lost(done.Lost)
		if done.Promoted+done.Reclaimed > 0 {
			signal(w.wake)
		}
		t.Reset(w.nextMaintenance(done, due))
	}
}

// nextMaintenance is the wait until a job is due, of the store's or of this worker's making, or until the next look.
func (w *Worker) nextMaintenance(done Maintained, due time.Time) time.Duration {
	if done.Promoted >= maintainLimit || done.Reclaimed >= maintainLimit {
		return 0
	}
	w.mu.Lock()
	if own := w.nextDue; due.IsZero() || !own.IsZero() && own.Before(due) {
		due = own
	}
	w.mu.Unlock()
	if due.IsZero() {
		return maintainEvery
	}
	until := time.Until(due)
	if until <= 0 {
		return maintainPause
	}
	return min(until, maintainEvery)
}

// lead does what only one worker of a store should do: retention and schedules. Every worker announces itself on the way.
func (w *Worker) lead(ctx context.Context) {
	elector, shared := w.store.(Elector)
	announcer := NewAnnouncer(w.store)
	defer w.withdraw(ctx, announcer)
	schedule := newSchedule(w.periodic, time.Now())
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		w.announce(ctx, announcer)
		leader := true
		var err error
		if shared {
			if leader, err = elector.Lead(ctx, w.name, leadFor); ctx.Err() == nil {
				w.outage.tell("elect a leader", err)
			}
		}
		next := leadEvery
		switch {
		case leader:
			w.retain(ctx)
			next = min(next, schedule.run(ctx, w))
		case err == nil: // another leads; what it leaves undone when it fails is younger than this
			w.outage.works("remove finished jobs")
			w.outage.works("enqueue periodic jobs")
			schedule.skip(time.Now().Add(-2 * leadFor))
		}
		t.Reset(next)
	}
}

// retain removes finished jobs whose time is over.
func (w *Worker) retain(ctx context.Context) {
	if len(w.keep) == 0 {
		return
	}
	for ctx.Err() == nil {
		done, err := w.store.Maintain(ctx, Maintenance{Limit: maintainLimit, Keep: w.keep})
		w.lost(done.Lost)
		if ctx.Err() == nil {
			w.outage.tell("remove finished jobs", err)
		}
		if err != nil || done.Removed < maintainLimit {
			return
		}
	}
}

// listen passes the store's signals of one kind on, and asks for them again where the store loses them.
func (w *Worker) listen(ctx context.Context, of string, notify func(context.Context) (<-chan struct{}, error), to chan struct{}) {
	for failures := 1; ctx.Err() == nil; failures++ {
		signals, err := notify(ctx)
		if err != nil {
			if failures == 1 {
				w.log.Info("job: the store cannot notify now; polling instead", "of", of, "error", err)
			}
			pause(ctx, failures)
			continue
		}
		if failures > 1 {
			w.log.Info("job: the store notifies again", "of", of)
		}
		failures = 0
		signal(to) // for what happened before the store listened
		for range signals {
			signal(to)
		}
	}
}
