package documents

import (
	"context"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
)

// Judge is the author of revisions that a judgement publishes.
const Judge = "tenet"

// other reports that a revision is rolled out, or under trial, that is not the one that the caller meant; a caller who means 0 means any.
func other(revision, meant int64) error {
	if meant == 0 || revision == meant {
		return nil
	}
	return fmt.Errorf("%w: it is revision %d now, not %d", ErrOther, revision, meant)
}

// Pause stops a running rollout where it is. It returns ErrNotRunning if the document has none, or ErrOther if that is not of the
// candidate; 0 is any.
func (s *Service) Pause(ctx context.Context, name string, candidate int64) (policystore.Document, error) {
	return s.update(ctx, name, false, func(d *policystore.Document, now time.Time) ([]policystore.Revision, error) {
		if d.Rollout == nil || d.Rollout.State != policystore.Running {
			return nil, fmt.Errorf("%w: document %q does not have a running one", ErrNotRunning, name)
		}
		d.Rollout.State, d.Rollout.PausedAt = policystore.Paused, now
		return nil, other(d.Rollout.Candidate, candidate)
	})
}

// Resume continues a paused rollout. It returns ErrNotRunning if the document has none, ErrOther as Pause does, or *FrozenError.
func (s *Service) Resume(ctx context.Context, name string, candidate int64) (policystore.Document, error) {
	return s.update(ctx, name, false, func(d *policystore.Document, now time.Time) ([]policystore.Revision, error) {
		if d.Rollout == nil || d.Rollout.State != policystore.Paused {
			return nil, fmt.Errorf("%w: document %q does not have a paused one", ErrNotRunning, name)
		}
		if d.Freeze != nil {
			return nil, &FrozenError{name, *d.Freeze}
		}
		r := d.Rollout
		r.StepStarted = r.StepStarted.Add(now.Sub(r.PausedAt)) // the pause does not count as time of the step
		r.State, r.PausedAt = policystore.Running, time.Time{}
		return nil, other(r.Candidate, candidate)
	})
}

// Abort ends a rollout and publishes the content of its base anew, also while the document is frozen. It returns
// ErrNotRunning if the document has no rollout, or only one that has ended, and ErrOther as Pause does.
func (s *Service) Abort(ctx context.Context, name, actor string, candidate int64) (policystore.Document, error) {
	return s.update(ctx, name, false, func(d *policystore.Document, now time.Time) ([]policystore.Revision, error) {
		if d.Rollout == nil || d.Rollout.State.Ended() {
			return nil, fmt.Errorf("%w: document %q does not have a running or paused one", ErrNotRunning, name)
		}
		if err := other(d.Rollout.Candidate, candidate); err != nil {
			return nil, err
		}
		message := fmt.Sprintf("rollout of revision %d aborted", d.Rollout.Candidate)
		return s.endWithBase(ctx, d, policystore.Aborted, policystore.Revision{Author: actor, Message: message, Created: now})
	})
}

// Judged carries out a judgement on a document as the judge saw it: it begins the next step, promotes or reverts. If anyone
// has changed the document since, it returns policystore.ErrConflict and changes nothing, so that a judgement counts once.
// A frozen document is not promoted further, but it is reverted.
func (s *Service) Judged(ctx context.Context, d policystore.Document, j rollout.Judgement) (policystore.Document, error) {
	if d.Rollout == nil || d.Rollout.State != policystore.Running {
		return d, ErrNotRunning
	}
	if d.Freeze != nil && j.Verdict != rollout.Revert {
		return d, nil
	}
	now := policystore.Stamp(time.Now())
	r := *d.Rollout
	r.Judgement = &j
	d.Rollout, d.Updated = &r, now
	var add []policystore.Revision
	switch j.Verdict {
	case rollout.Advance:
		r.Step++
		r.StepStarted = now
	case rollout.Promote:
		r.State, r.Ended = policystore.Promoted, now
		d.Current = r.Candidate
	case rollout.Revert:
		var err error
		message := fmt.Sprintf("rollout of revision %d reverted: %s", r.Candidate, j.Reason)
		add, err = s.endWithBase(ctx, &d, policystore.Reverted, policystore.Revision{Author: Judge, Message: message, Created: now})
		if err != nil {
			return d, err
		}
	default:
		return d, nil
	}
	return s.store.Save(ctx, d, add...)
}

// endWithBase ends the rollout and returns the revision that restores its base, as a draft that has an author, a message and
// a time.
func (s *Service) endWithBase(ctx context.Context, d *policystore.Document, state policystore.RolloutState, draft policystore.Revision) ([]policystore.Revision, error) {
	base, err := s.store.Revision(ctx, d.Name, d.Rollout.Base)
	if err != nil {
		return nil, err
	}
	draft.Hash, draft.Body, draft.Restores = base.Hash, base.Body, base.Number
	r := numbered(d, draft, draft.Created)
	d.Current = r.Number
	d.Rollout.State, d.Rollout.Ended, d.Rollout.PausedAt = state, draft.Created, time.Time{}
	return []policystore.Revision{r}, nil
}

// EndTrial ends a trial, also while the document is frozen. It returns ErrNoTrial if there is none, or ErrOther if it is not of the
// revision; 0 is any.
func (s *Service) EndTrial(ctx context.Context, name string, revision int64) (policystore.Document, error) {
	return s.update(ctx, name, false, func(d *policystore.Document, _ time.Time) ([]policystore.Revision, error) {
		if d.Trial == nil {
			return nil, fmt.Errorf("document %q: %w", name, ErrNoTrial)
		}
		if err := other(d.Trial.Revision, revision); err != nil {
			return nil, err
		}
		d.Trial = nil
		return nil, nil
	})
}

// Freeze refuses publications, rollbacks and the progress of rollouts until Unfreeze. Freezing again replaces the reason. The
// service sets the time.
func (s *Service) Freeze(ctx context.Context, name string, f policystore.Freeze) (policystore.Document, error) {
	return s.update(ctx, name, false, func(d *policystore.Document, now time.Time) ([]policystore.Revision, error) {
		f.Since = now
		d.Freeze = &f
		return nil, nil
	})
}

// Unfreeze ends a freeze. A document that is not frozen stays as it is.
func (s *Service) Unfreeze(ctx context.Context, name string) (policystore.Document, error) {
	return s.update(ctx, name, false, func(d *policystore.Document, _ time.Time) ([]policystore.Revision, error) {
		d.Freeze = nil
		return nil, nil
	})
}
