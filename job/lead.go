package job

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
)

const (
	leadEvery = 3 * time.Second
	leadFor   = 6 * time.Second // another worker leads at most leadFor + leadEvery, less than 10 s, after the leader's end
)

// leader runs the tasks that only one worker of a store should run: retention, schedules and redrives. Every worker announces itself
// in the same loop.
type leader struct {
	store    Store
	client   *Client // enqueues periodic jobs
	name     string
	timeout  time.Duration // of one call of the store
	round    time.Duration // the longest round of redrives
	keep     map[State]time.Duration
	periodic []Periodic                // of code
	settings atomic.Pointer[[]Setting] // that were not followed yet; nil if there are none
	changed  wait.Signal               // settings were stored
	schedule schedule
	takes    func() WorkerInfo // the queues and types that the worker claims now
	health   *health
	report   *reporter
	log      *slog.Logger
	leads    atomic.Bool
}

// run leads while no other worker does, until ctx ends.
func (l *leader) run(ctx context.Context) {
	elector, shared := l.store.(Elector)
	announcer := NewAnnouncer(l.store)
	defer l.withdraw(ctx, announcer, elector)
	if _, stored := l.store.(SettingStore); !stored { // otherwise nothing is enqueued before the settings are known
		l.schedule.follow(l.periodic, nil, l.log)
	}
	var since time.Time // that another leads
	for next := time.Duration(0); ; {
		if _, err := wait.ForSignal(ctx, next, l.changed); err != nil {
			return
		}
		if list := l.settings.Swap(nil); list != nil {
			l.schedule.follow(l.periodic, *list, l.log)
		}
		l.announce(ctx, announcer)
		leads := true
		var err error
		if shared {
			leads, err = l.elect(ctx, elector)
		}
		l.leads.Store(leads && err == nil)
		next = leadEvery
		switch {
		case leads:
			since = time.Time{}
			more := l.retain(ctx)
			if next = min(next, l.enqueue(ctx)); more {
				next = 0
			}
		case err == nil: // another leads
			l.health.report("remove finished jobs", nil)
			l.health.report("enqueue periodic jobs", nil)
			if since.IsZero() {
				since = time.Now()
			}
			// Once it has led for so long, it has made up for older ticks. One that has just begun may crash before that.
			if time.Since(since) > 2*leadFor {
				l.schedule.skip(time.Now().Add(-2 * leadFor))
			}
		}
	}
}

// elect reports whether this worker leads.
func (l *leader) elect(ctx context.Context, elector Elector) (leads bool, err error) {
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	leads, err = elector.Lead(limited, l.name, leadFor)
	l.health.reportUnder(ctx, "elect a leader", err)
	return leads, err
}

// follow makes the leader follow settings from now on. It is safe for concurrent use.
func (l *leader) follow(settings []Setting) {
	l.settings.Store(&settings)
	l.changed.Send()
}

// retain removes finished jobs whose retention is over, a batch of them, and reports whether there may be more.
func (l *leader) retain(ctx context.Context) (more bool) {
	if len(l.keep) == 0 {
		return false
	}
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	done, err := l.store.Maintain(limited, Maintenance{Limit: maintainLimit, Keep: l.keep})
	l.report.lost(done.Lost)
	l.health.reportUnder(ctx, "remove finished jobs", err)
	return err == nil && done.Removed >= maintainLimit
}

// enqueue enqueues the ticks that are due and returns the time until the next one.
func (l *leader) enqueue(ctx context.Context) time.Duration {
	next, err := l.schedule.run(ctx, l.client, l.timeout)
	l.health.reportUnder(ctx, "enqueue periodic jobs", err)
	return next
}

// announce keeps the worker listed. A worker without handlers takes no jobs and is not listed.
func (l *leader) announce(ctx context.Context, a *Announcer) {
	info := l.takes()
	if len(info.Types) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	l.health.reportUnder(ctx, "announce the worker", a.Announce(limited, info))
}

// withdraw removes a worker that stops from the list, and lets another worker lead at once. If the store does not answer, the entry and
// the lead expire.
func (l *leader) withdraw(ctx context.Context, a *Announcer, elector Elector) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	if err := a.Withdraw(limited); err != nil {
		l.log.Debug("job: the worker stays listed until its entry expires", "error", err)
	}
	if elector == nil || !l.leads.Load() {
		return
	}
	if _, err := elector.Lead(limited, l.name, time.Millisecond); err != nil {
		l.log.Debug("job: no other worker leads until the lead expires", "error", err)
	}
}
