package job

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/wait"
)

// leases holds the leases of the jobs between their claim and their settlement, and extends them.
type leases struct {
	store     Store
	length    time.Duration
	cancelled wait.Signal // cancellations of running jobs may have been requested
	late      wait.Signal // a look for cancellations may have missed jobs that were being claimed
	health    *health
	log       *slog.Logger

	mu      sync.Mutex
	running map[string]running // by job ID
	looked  time.Time          // when the last signal of cancellations was followed
}

// running is a job between its claim and its settlement.
type running struct {
	record   *Record
	cancel   context.CancelCauseFunc
	returned bool // its handler has; the store has not got its settlement yet
}

// Causes of a job's cancelled context.
var (
	errShutdown  = errors.New("job: the worker is shutting down")
	errCancelled = errors.New("job: cancelled by an operator")
	errLeaseLost = errors.New("job: the lease was lost while the handler ran")
)

// gatherTime is how long the worker waits for more cancellations by the same operator, so that many of them cost few
// extensions.
const gatherTime = 100 * time.Millisecond

// add holds the lease of a claimed job.
func (l *leases) add(r *Record, cancel context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.running[r.ID]; ok { // its lease was lost while the store did not answer
		old.cancel(errLeaseLost)
	}
	l.running[r.ID] = running{record: r, cancel: cancel}
}

// drop stops extending a lease.
func (l *leases) drop(lease Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run, ok := l.running[lease.ID]; ok && run.record.Fence == lease.Fence {
		delete(l.running, lease.ID)
	}
}

// returned notes that the handler of a job has returned.
func (l *leases) returned(lease Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run, ok := l.running[lease.ID]; ok && run.record.Fence == lease.Fence {
		run.returned = true
		l.running[lease.ID] = run
	}
}

// held lists the jobs whose leases are held.
func (l *leases) held() []running {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.running))
}

// find returns the job that runs under a lease, if the lease is still held.
func (l *leases) find(lease Ref) (running, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	run, ok := l.running[lease.ID]
	return run, ok && run.record.Fence == lease.Fence
}

// run extends the leases every third of their length until ctx ends, and at once when cancellations may have been
// requested: the store's answers name the jobs to cancel and the leases that are lost.
func (l *leases) run(ctx context.Context) {
	tick := time.NewTicker(l.length / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-l.cancelled:
			if wait.For(ctx, gatherTime) != nil {
				return
			}
			l.mu.Lock()
			l.looked = time.Now()
			l.mu.Unlock()
		case <-l.late:
		}
		l.health.report("extend", l.extend(ctx))
	}
}

// claimed notes that jobs were added whose claim began at a time. They were missing from a look for cancellations since then.
func (l *leases) claimed(began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.looked.Before(began) {
		l.late.Send()
	}
}

// extend extends all leases and returns an error that may pass, if there was one.
func (l *leases) extend(ctx context.Context) (failed error) {
	held := l.held()
	if len(held) == 0 {
		return nil
	}
	refs := lists.Map(held, func(run running) Ref { return run.record.Ref() })
	// In order, as settlements are: stores that lock rows cannot deadlock then.
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.ID, b.ID) })
	limited, cancel := context.WithTimeout(ctx, l.length/3) // a store that hangs is asked again
	defer cancel()
	for i, err := range l.store.Extend(limited, refs, l.length) {
		run, held := l.find(refs[i])
		switch {
		case err == nil || !held: // or settled meanwhile
		case run.returned && IsFinal(err): // settled too; the settler is about to learn of it, or that it was too late
		case errors.Is(err, ErrCancelRequested):
			run.cancel(errCancelled)
		case IsFinal(err):
			l.log.Warn("job: a lease was lost", "job", run.record.ID, "error", err)
			run.cancel(errLeaseLost)
		default:
			failed = err
		}
	}
	return failed
}
