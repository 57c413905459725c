package redrives

import (
	"context"
	"log/slog"
	"time"

	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
)

// Times of a runner.
const (
	// Hold keeps workers from redrives while a server runs: a server puts judgements on record.
	Hold         = 10 * time.Second
	interval     = time.Second // between rounds with nothing to do
	leaderTTL    = 15 * time.Second
	leaderRenew  = 5 * time.Second
	stopTimeout  = 2 * time.Second // for the end of the lead
	roundTimeout = 30 * time.Second
)

const task = "redrives" // that servers elect a leader for

// Runner runs redrives. Create it with New.
type Runner struct {
	elections policystore.Rollouts
	runner    *job.RedriveRunner
	server    string // the name under which it leads
	log       *slog.Logger
	renew     time.Time // when leadership is to be asked for again
}

// New makes a runner. It sets o.Hold.
func New(elections policystore.Rollouts, store job.RedriveStepper, o job.RedriveRunnerOptions) *Runner {
	o.Hold = Hold
	return &Runner{elections: elections, runner: job.NewRedriveRunner(store, o), server: uuidv7.Next(), log: o.Logger}
}

// Run runs redrives while this server leads, until ctx ends. Then another server can lead at once.
func (r *Runner) Run(ctx context.Context) {
	defer r.withdraw(ctx)
	failed := false
	for next := interval; wait.For(ctx, next) == nil; {
		var err error
		next, err = r.round(ctx)
		if err != nil {
			next = interval
			if !failed && ctx.Err() == nil {
				r.log.WarnContext(ctx, "redrives cannot be run now", "error", err)
			}
		}
		failed = err != nil
	}
}

// withdraw ends the lead of a server that stops. If the store does not answer, the lead expires.
func (r *Runner) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if _, err := r.elections.Lead(ctx, task, r.server, time.Millisecond); err != nil {
		r.log.DebugContext(ctx, "no other server runs redrives until the lead expires", "error", err)
	}
}

// round takes a step of every redrive, if this server leads.
func (r *Runner) round(ctx context.Context) (next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	if now := time.Now(); !now.Before(r.renew) {
		if leads, err := r.elections.Lead(ctx, task, r.server, leaderTTL); err != nil || !leads {
			return interval, err
		}
		r.renew = now.Add(leaderRenew)
	}
	return r.runner.Round(ctx)
}
