package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/internal/uuidv7"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/redrives"
)

type redriveID struct {
	ID string `path:"id" maxLength:"64"`
}

type redrivePage struct {
	PageQuery
	Active bool `query:"active" doc:"Only redrives that are not over, or whose released jobs have not all ended."`
}

type redriveAction struct {
	ID     string            `path:"id" maxLength:"64"`
	Action job.RedriveAction `path:"action" enum:"pause,resume,abort,undo"`
}

type redriveRate struct {
	ID   string `path:"id" maxLength:"64"`
	Body api.RedriveRate
}

func (s *Server) redriveRoutes() {
	read, operate := group{tag: "Redrives", scope: policystore.ScopeRead}, group{tag: "Redrives", scope: policystore.ScopeOperate, once: keyed}
	register(s, read.ask("/v1/dlq/causes", "list-causes", "Count dead jobs by cause"), s.listCauses)
	register(s, read.route(http.MethodGet, "/v1/redrives", "list-redrives", "List redrives, newest first"), s.listRedrives)
	register(s, read.route(http.MethodGet, "/v1/redrives/{id}", "get-redrive", "Show a redrive with its progress"), s.getRedrive)
	register(s, read.ask("/v1/redrives/preview", "preview-redrive", "Count the jobs that a redrive would select"), s.previewRedrive)
	create := operate.route(http.MethodPost, "/v1/redrives", "create-redrive", "Run dead jobs again, a part at a time")
	create.Description = "Selects dead jobs, once and exactly. The server, or workers of its store, release them as the plan says."
	register(s, create, s.createRedrive)
	change := operate.route(http.MethodPost, "/v1/redrives/{id}/{action}", "change-redrive", "Pause, resume, abort or undo a redrive")
	change.Description = "abort releases no further jobs; undo also puts back the released jobs that no worker has claimed."
	register(s, change, func(ctx context.Context, in *redriveAction) (*answer[api.Redrive], error) {
		return s.changeRedrive(ctx, in.ID, job.RedriveChange{Action: in.Action, Actor: callerOf(ctx).actor()})
	})
	register(s, operate.route(http.MethodPost, "/v1/redrives/{id}/rate", "set-redrive-rate", "Change the rate of a redrive"),
		func(ctx context.Context, in *redriveRate) (*answer[api.Redrive], error) {
			return s.changeRedrive(ctx, in.ID, job.RedriveChange{Action: job.RedriveSetRate, Rate: in.Body.Rate})
		})
}

// redriver returns the store as one that keeps redrives.
func (s *Server) redriver() (job.RedriveStepper, error) {
	return able[job.RedriveStepper](s.options.Jobs, "this store keeps no redrives", "requeue the jobs: POST /v1/dlq/requeue")
}

func (s *Server) listCauses(ctx context.Context, in *bodyOf[api.CauseQuery]) (*answer[api.Causes], error) {
	store, err := able[job.Causer](s.options.Jobs, "this store does not count causes", "list the jobs: POST /v1/jobs/search")
	if err != nil {
		return nil, err
	}
	f, err := deadFilter(callerOf(ctx), api.RedriveSelection{Filter: in.Body.Filter})
	if err != nil {
		return nil, err
	}
	found, err := store.Causes(ctx, job.CauseQuery{Filter: f, Limit: in.Body.Limit})
	found.Groups = orEmpty(found.Groups)
	return answers(api.Causes(found), err)
}

// deadFilter parses the filter of a selection and narrows it to what a caller may change.
func deadFilter(who *caller, s api.RedriveSelection) (job.Filter, error) {
	f, err := filterFor(who, s.Filter)
	if err == nil && slices.ContainsFunc(f.States, func(s job.State) bool { return s != job.Dead }) {
		err = fmt.Errorf("%w: only dead jobs are selected; leave the states out", errInvalid)
	}
	return f, err
}

func (s *Server) previewRedrive(ctx context.Context, in *bodyOf[api.RedriveSelection]) (*answer[api.RedrivePreview], error) {
	store, err := s.redriver()
	if err != nil {
		return nil, err
	}
	f, err := deadFilter(callerOf(ctx), in.Body)
	if err != nil {
		return nil, err
	}
	groups, err := store.PreviewRedrive(ctx, f)
	return answers(api.NewRedrivePreview(groups), err)
}

func (s *Server) createRedrive(ctx context.Context, in *bodyOf[api.NewRedrive]) (*answer[api.Redrive], error) {
	store, err := s.redriver()
	if err != nil {
		return nil, err
	}
	n := in.Body.NewRedrive()
	n.ID, n.Actor, n.HeldFor = uuidv7.Next(), callerOf(ctx).actor(), redrives.Hold
	if n.Filter, err = deadFilter(callerOf(ctx), in.Body.RedriveSelection); err != nil {
		return nil, err
	}
	if err := n.Check(); err != nil {
		return nil, err
	}
	groups, err := store.PreviewRedrive(ctx, n.Filter)
	if err != nil {
		return nil, err
	}
	o, err := operation.OnRedrive(n, api.NewRedrivePreview(groups).Total)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if err := s.record(ctx, o); err != nil {
		return nil, err
	}
	made, err := store.CreateRedrive(ctx, n)
	return answers(api.NewRedriveState(made), err)
}

// mayRedrive reports whether a redrive has jobs only of queues that the caller is bound to.
func mayRedrive(who *caller, r job.Redrive) bool {
	return !slices.ContainsFunc(r.Groups, func(g job.RedriveGroup) bool { return !within(g.Queue, who.Queues) })
}

// redrive returns a redrive that the caller may see.
func (s *Server) redrive(ctx context.Context, id string) (job.RedriveStepper, job.Redrive, error) {
	store, err := s.redriver()
	if err != nil {
		return nil, job.Redrive{}, err
	}
	r, err := store.Redrive(ctx, id)
	if err == nil && !mayRedrive(callerOf(ctx), r) {
		err = &job.NotFoundError{What: "redrive", ID: id} // to this caller
	}
	return store, r, err
}

func (s *Server) getRedrive(ctx context.Context, in *redriveID) (*answer[api.Redrive], error) {
	_, r, err := s.redrive(ctx, in.ID)
	return answers(api.NewRedriveState(r), err)
}

var redriveList = listing[string, job.Redrive]{api.RedriveCursor, func(r job.Redrive) string { return r.ID }}

// listRedrives looks at one page of the store: a bound caller may get fewer redrives, or none, and a next page.
func (s *Server) listRedrives(ctx context.Context, in *redrivePage) (*answer[api.RedrivePage], error) {
	store, err := s.redriver()
	if err != nil {
		return nil, err
	}
	list, next, err := redriveList.page(ctx, in.PageQuery, func(ctx context.Context, below string, limit int) ([]job.Redrive, error) {
		if err := checkID("cursor", below); err != nil {
			return nil, err
		}
		return store.Redrives(ctx, job.RedriveQuery{Below: below, Limit: limit, Active: in.Active})
	})
	page := api.RedrivePage{Redrives: []api.Redrive{}, Next: next}
	for _, r := range list {
		if mayRedrive(callerOf(ctx), r) {
			page.Redrives = append(page.Redrives, api.NewRedriveState(r))
		}
	}
	return answers(page, err)
}

func (s *Server) changeRedrive(ctx context.Context, id string, c job.RedriveChange) (*answer[api.Redrive], error) {
	store, r, err := s.redrive(ctx, id)
	if err != nil {
		return nil, err
	}
	after := r
	if err := after.Apply(c, time.Now()); err != nil {
		return nil, err
	}
	if err := s.record(ctx, operation.OnRedriveChange(r, after, c)); err != nil {
		return nil, err
	}
	changed, err := store.UpdateRedrive(ctx, id, c)
	return answers(api.NewRedriveState(changed), err)
}

// judging is the store of the server's runner. It puts on record that a judgement did not take effect, because somebody else had
// ended or paused the redrive.
type judging struct {
	job.RedriveStepper
	log *audit.Log
}

func (j judging) UpdateRedrive(ctx context.Context, id string, c job.RedriveChange) (job.Redrive, error) {
	r, err := j.RedriveStepper.UpdateRedrive(ctx, id, c)
	if errors.Is(err, job.ErrConflict) {
		return r, errors.Join(err, j.log.OperatorAction(ctx, operation.Refused(judgement(id, c.State), "the redrive has changed")))
	}
	return r, err
}

func judgement(id string, to job.RedriveState) audit.Operation {
	return audit.Operation{
		Actor: "server:redrives", Action: "redrives.judge", From: string(job.RedriveRunning), To: string(to), Attributes: map[string]string{"redrive": id},
	}
}

// recordRedrive puts the end of a redrive on record, with its evidence, before it takes effect.
func (s *Server) recordRedrive(ctx context.Context, r job.Redrive, v job.RedriveVerdict) error {
	o := judgement(r.ID, v.State) // Decide judges running redrives only
	o.Detail = v.Reason
	for name, n := range map[string]int{
		"total": r.Total, "released": r.Released, "skipped": r.Skipped, "completed": r.Completed, "dead": r.Dead, "cancelled": r.Cancelled, "removed": r.Removed, "pending": r.Pending(),
	} {
		o.Attributes[name] = strconv.Itoa(n)
	}
	return s.options.Log.OperatorAction(ctx, o)
}
