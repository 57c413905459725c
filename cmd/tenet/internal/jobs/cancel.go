package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// Outcomes of a cancellation, in addition to the states of jobs.
const (
	cancelPending = "pending" // requested of the worker that runs the job
	cancelGone    = "gone"    // the job was deleted meanwhile
)

// cancelPoll is the interval at which a job to be cancelled is read.
const cancelPoll = 100 * time.Millisecond

// cancelled returns the outcome of a requested cancellation: the state that the job ended in or, unless waits is set, that its
// worker has not answered yet. If it returns an error, the outcome is pending.
func cancelled(ctx context.Context, s open.JobStore, id string, waits bool) (string, error) {
	for {
		r, _, err := s.Get(ctx, id)
		switch {
		case errors.Is(err, job.ErrNotFound):
			return cancelGone, nil
		case err != nil:
			return cancelPending, err
		case r.State != job.Running:
			return string(r.State), nil
		case !waits:
			return cancelPending, nil
		}
		if wait.For(ctx, cancelPoll) != nil {
			return cancelPending, context.Cause(ctx)
		}
	}
}

// cancelText describes an outcome.
func cancelText(id, outcome string) string {
	switch outcome {
	case string(job.Cancelled):
		return id + " cancelled"
	case cancelPending:
		return id + " pending: its worker was asked to cancel it (--wait waits for the end)"
	case cancelGone:
		return id + " gone: it was deleted meanwhile"
	}
	return fmt.Sprintf("%s %s before it could be cancelled", id, outcome)
}
