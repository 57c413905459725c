package rollouts

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/internal/documents"
)

// Times of a runner.
const (
	Interval    = 3 * time.Second // between judgements
	leaderTTL   = 15 * time.Second
	stopTimeout = 2 * time.Second // for the end of the lead
	tickTimeout = 10 * time.Second
	keepClients = 7 * 24 * time.Hour // after their last contact
	cleanEvery  = time.Hour
	pageSize    = 200
)

const task = "rollouts" // that servers elect a leader for

// Options of a runner. The zero value is usable.
type Options struct {
	// Record makes a judgement other than wait take effect, by calling take, once it is on record. If it returns an error
	// instead, the judgement does not take effect, and is made again later.
	Record func(ctx context.Context, d policystore.Document, j rollout.Judgement, take func() error) error
	// Logger for judgements. Default slog.Default().
	Logger *slog.Logger
}

// Runner judges rollouts. Create it with New.
type Runner struct {
	store   policystore.Store
	changes *documents.Service
	server  string // the name under which it leads
	o       Options
	cleaned time.Time
}

// New makes a runner.
func New(store policystore.Store, changes *documents.Service, o Options) *Runner {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return &Runner{store: store, changes: changes, server: uuidv7.Next(), o: o}
}

// Run judges every few seconds, while this server leads, until ctx ends. Then another server can lead at once.
func (r *Runner) Run(ctx context.Context) {
	defer r.withdraw(ctx)
	failed := false
	for wait.For(ctx, Interval) == nil {
		err := r.tick(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			r.o.Logger.Warn("rollouts cannot be judged now", "error", err)
		}
		failed = err != nil
	}
}

// withdraw ends the lead of a server that stops. If the store does not answer, the lead expires.
func (r *Runner) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if _, err := r.store.Lead(ctx, task, r.server, time.Millisecond); err != nil {
		r.o.Logger.Debug("no other server judges rollouts until the lead expires", "error", err)
	}
}

// tick judges every running rollout once, if this server leads.
func (r *Runner) tick(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	if leads, err := r.store.Lead(ctx, task, r.server, leaderTTL); err != nil || !leads {
		return err
	}
	var faults []error
	page := func(after string, limit int) ([]policystore.Document, error) {
		return r.store.Documents(ctx, after, limit)
	}
	for d, err := range paging.All("", pageSize, page, func(d policystore.Document) string { return d.Name }) {
		if err != nil {
			return errors.Join(append(faults, err)...)
		}
		if d.Rollout == nil || d.Rollout.State != policystore.Running {
			continue
		}
		// Somebody else may have changed the document: then the next tick looks again.
		if err := r.judge(ctx, d); err != nil && !errors.Is(err, policystore.ErrConflict) {
			faults = append(faults, err)
		}
	}
	return errors.Join(append(faults, r.clean(ctx))...)
}

func (r *Runner) judge(ctx context.Context, d policystore.Document) error {
	evidence, err := r.store.Evidence(ctx, d.Rollout.ID)
	if err != nil {
		return err
	}
	j, err := Judge(ctx, r.store, &d, evidence)
	if err != nil || j.Verdict == rollout.Wait || d.Freeze != nil && j.Verdict != rollout.Revert {
		return err
	}
	take := func() error {
		_, err := r.changes.Judged(ctx, d, j)
		return err
	}
	if r.o.Record != nil {
		err = r.o.Record(ctx, d, j, take)
	} else {
		err = take()
	}
	if err != nil {
		return err
	}
	r.o.Logger.Info("rollout judged", "document", d.Name, "candidate", d.Rollout.Candidate, "step", d.Rollout.Step, "verdict", j.Verdict, "reason", j.Reason)
	return nil
}

// Judge judges the current step of a document's rollout. Before a good verdict it looks whether each group has two clients that were
// seen in this step. The counters do not say that for sure: a client that reports to two servers counts as a member at each.
func Judge(ctx context.Context, store policystore.Clients, d *policystore.Document, evidence []policystore.Evidence) (rollout.Judgement, error) {
	j := rollout.Judge(d.Rollout.Plan, observe(d.Rollout, evidence))
	if j.Verdict == rollout.Wait || j.Verdict == rollout.Revert {
		return j, nil
	}
	list, err := store.CountClients(ctx, d.Name, d.Rollout.StepStarted)
	var base, candidate int64
	for _, c := range list {
		switch c.Applied {
		case d.Rollout.Base:
			base += c.Clients
		case d.Rollout.Candidate:
			candidate += c.Clients
		}
	}
	if candidate < 2 || base < 2 && !forAll(d.Rollout) {
		j.Verdict, j.Reason = rollout.Wait, rollout.ReasonSamples
	}
	return j, err
}

// forAll reports whether the current step leaves nobody on the base.
func forAll(r *policystore.Rollout) bool {
	return r.Step < len(r.Plan.Steps) && r.Plan.Steps[r.Step].Share >= 1
}

// observe returns what the judgement of the current step looks at. The time of a rollout that is paused or has ended stands still. A
// step for all clients leaves nobody on the base: it is compared with the base of the newest step before.
func observe(r *policystore.Rollout, evidence []policystore.Evidence) rollout.Observation {
	now := time.Now()
	switch {
	case !r.PausedAt.IsZero():
		now = r.PausedAt
	case !r.Ended.IsZero():
		now = r.Ended
	}
	o := rollout.Observation{Step: r.Step, Elapsed: now.Sub(r.StepStarted)}
	all := forAll(r)
	for _, e := range evidence { // by step
		switch {
		case e.Revision == r.Candidate && e.Step == r.Step:
			o.Candidate = e.Counters
		case e.Revision == r.Base && (e.Step == r.Step && !all || e.Step < r.Step && all):
			o.Base = e.Counters
		}
	}
	return o
}

// clean removes clients that have been gone for long.
func (r *Runner) clean(ctx context.Context) error {
	if time.Since(r.cleaned) < cleanEvery {
		return nil
	}
	for {
		n, err := r.store.RemoveClients(ctx, time.Now().Add(-keepClients), pageSize)
		if err != nil {
			return err
		}
		if n < pageSize {
			r.cleaned = time.Now()
			return nil
		}
	}
}
