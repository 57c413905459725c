package job

import (
	"context"
	"sync"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policy"
)

const (
	// maintainEvery bounds how late a lost lease is reclaimed. Jobs scheduled by this worker become ready without this delay.
	maintainEvery = time.Second
	maintainPause = 20 * time.Millisecond // before the next maintenance if a due job was not made ready
	maintainLimit = 1000
)

// upkeep makes due jobs ready and reclaims lost leases, every second and when a job is known to be due.
type upkeep struct {
	store   Store
	timeout time.Duration // of one call
	wake    wait.Signal   // sent when jobs have become ready
	nearer  wait.Signal   // received when next has become earlier
	health  *health
	report  *reporter
	limits  *publisher

	mu   sync.Mutex
	next time.Time // the earliest due time of the jobs that this worker has scheduled since the last maintenance
}

// scheduled notes when a job that was just settled is due again.
func (u *upkeep) scheduled(s *Settlement) {
	if s.Delay <= 0 {
		if s.Kind == KindRetry || s.Kind == KindSnooze || s.Kind == KindRelease || s.Kind == KindRefuse {
			u.wake.Send()
		}
		return
	}
	due := time.Now().Add(s.Delay)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.next.IsZero() || due.Before(u.next) {
		u.next = due
		u.nearer.Send()
	}
}

// run maintains the store until ctx ends.
func (u *upkeep) run(ctx context.Context) {
	var done Maintained
	var due time.Time // of the store's next job, by this process's clock
	for pause := time.Duration(0); ; pause = u.pause(done, due) {
		nearer, err := wait.ForSignal(ctx, pause, u.nearer)
		if err != nil {
			return
		}
		if nearer {
			continue
		}
		u.mu.Lock()
		u.next = time.Time{}
		u.mu.Unlock()
		limited, cancel := context.WithTimeout(ctx, u.timeout)
		u.health.report("publish limits", u.limits.publish(limited))
		done, err = u.store.Maintain(limited, Maintenance{Limit: maintainLimit})
		cancel()
		u.health.reportUnder(ctx, "maintain", err)
		if err == nil {
			u.health.answered()
		}
		if due = (time.Time{}); !done.NextDue.IsZero() {
			due = time.Now().Add(done.NextDue.Sub(done.Now))
		}
		u.report.lost(done.Lost)
		if done.Promoted+done.Reclaimed > 0 {
			u.wake.Send()
		}
	}
}

// pause returns the wait until a job is due, whether reported by the store or scheduled by this worker, or until the next
// maintenance.
func (u *upkeep) pause(done Maintained, due time.Time) time.Duration {
	if done.Promoted >= maintainLimit || done.Reclaimed >= maintainLimit || done.More {
		return 0
	}
	u.mu.Lock()
	if own := u.next; due.IsZero() || !own.IsZero() && own.Before(due) {
		due = own
	}
	u.mu.Unlock()
	if due.IsZero() {
		return maintainEvery
	}
	until := time.Until(due)
	if until <= 0 {
		return maintainPause
	}
	return min(until, maintainEvery)
}

// publisher tells the store what the worker's document says about limits, whenever the document has changed.
type publisher struct {
	store    Store
	document policy.Provider // nil if there is none
	last     *policy.Set     // that was published
}

// publish is called at least every second.
func (p *publisher) publish(ctx context.Context) error {
	limiter, bounds := p.store.(Limiter)
	provider, documented := p.document.(policy.SetProvider)
	if !bounds || !documented {
		return nil
	}
	set := provider.Set()
	if set == nil || set == p.last {
		return nil
	}
	if scopes := set.Limits(); len(scopes) > 0 {
		if err := limiter.PublishLimits(ctx, scopes); err != nil {
			return err
		}
	}
	p.last = set
	return nil
}
