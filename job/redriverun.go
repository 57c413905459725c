package job

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tenetdev/tenet/internal/argument"
	"github.com/tenetdev/tenet/internal/wait"
)

// RedriveRunnerOptions are options of a [RedriveRunner]. The zero value is usable.
type RedriveRunnerOptions struct {
	// Hold keeps runners without a hold, such as those of workers, from a redrive that this runner steps, for this time after
	// each step. 0 to 1 h.
	Hold time.Duration
	// Judged is called before a redrive ends as a verdict says. With an error it does not end, releases nothing, and is judged
	// again later. May be nil.
	Judged func(ctx context.Context, r Redrive, v RedriveVerdict) error
	// Logger gets judgements. Default slog.Default().
	Logger *slog.Logger
}

// RedriveRunner runs the redrives of a store. Any number of runners of a store, in any processes, run each redrive at its rate
// and release every job once; a worker that leads its store runs one. It is not safe for concurrent use.
type RedriveRunner struct {
	store   RedriveStepper
	options RedriveRunnerOptions
}

// NewRedriveRunner makes a runner. A nil store panics.
func NewRedriveRunner(store RedriveStepper, o RedriveRunnerOptions) *RedriveRunner {
	argument.Need(store != nil, "job: NewRedriveRunner: the store")
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return &RedriveRunner{store, o}
}

// maxActive bounds the redrives of one round. Others wait until some of them have nothing left to do.
const maxActive = 100

// Round takes a step of each redrive that has something to do, and returns the time after which the next round is worthwhile: a
// second if there are none.
func (r *RedriveRunner) Round(ctx context.Context) (next time.Duration, err error) {
	active, err := r.store.Redrives(ctx, RedriveQuery{Active: true, Limit: maxActive})
	next = redriveTurn
	for _, one := range active {
		_, wait, failed := r.step(ctx, one.ID)
		if errors.Is(failed, ErrNotFound) {
			continue
		}
		err = errors.Join(err, failed)
		if failed == nil {
			next = min(next, wait)
		}
	}
	return next, err
}

// step takes a step of one redrive.
func (r *RedriveRunner) step(ctx context.Context, id string) (Redrive, time.Duration, error) {
	state, v, err := r.store.StepRedrive(ctx, id, r.options.Hold)
	if err != nil || v.State == "" {
		return state, v.Wait, err
	}
	if r.options.Judged != nil {
		if err := r.options.Judged(ctx, state, v); err != nil {
			return state, redriveTurn, err
		}
	}
	ended, err := r.store.UpdateRedrive(ctx, id, RedriveChange{Action: RedriveEnd, State: v.State, Reason: v.Reason})
	if errors.Is(err, ErrConflict) { // somebody else has ended or paused it meanwhile
		return state, redriveTick, nil
	}
	if err == nil {
		r.options.Logger.InfoContext(ctx, "job: a redrive has ended", "redrive", id, "state", v.State, "reason", v.Reason,
			"released", ended.Released, "completed", ended.Completed, "dead", ended.Dead)
	}
	return ended, 0, err
}

// Follow runs one redrive until it has nothing left to do, and returns it. It calls progress, if that is not nil, after each
// step. With an error of ctx or the store, the redrive goes on where other runners run.
func (r *RedriveRunner) Follow(ctx context.Context, id string, progress func(Redrive)) (Redrive, error) {
	for {
		state, next, err := r.step(ctx, id)
		if err != nil {
			return state, err
		}
		if progress != nil {
			progress(state)
		}
		if !state.Active() {
			return state, nil
		}
		if err := wait.For(ctx, next); err != nil {
			return state, err
		}
	}
}

// redrive runs redrives while this worker leads, until ctx ends.
func (l *leader) redrive(ctx context.Context) {
	store, ok := l.store.(RedriveStepper)
	if !ok {
		return
	}
	runner := NewRedriveRunner(store, RedriveRunnerOptions{Logger: l.log})
	for next := redriveTurn; wait.For(ctx, next) == nil; {
		next = redriveTurn
		if !l.leads.Load() {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, l.round)
		after, err := runner.Round(limited)
		cancel()
		l.health.reportUnder(ctx, "run redrives", err)
		if err == nil {
			next = after
		}
	}
}
