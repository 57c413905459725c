package client

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

var (
	_ job.Redriver = (*Jobs)(nil)
	_ job.Causer   = (*Jobs)(nil)
)

// Causes implements job.Causer.
func (j *Jobs) Causes(ctx context.Context, q job.CauseQuery) (job.Causes, error) {
	body := api.CauseQuery{Filter: api.NewJobFilter(q.Filter), Limit: min(q.Groups(), api.MaxBatch)}
	out, err := ask[api.Causes](ctx, j.client, Call{Method: http.MethodPost, Path: "/v1/dlq/causes", Body: body, Once: true}, asJob)
	return job.Causes(out), err
}

// PreviewRedrive implements job.Redriver. Groups beyond the largest 100 are one group without a name.
func (j *Jobs) PreviewRedrive(ctx context.Context, f job.Filter) ([]job.RedriveGroup, error) {
	var out api.RedrivePreview
	body := api.RedriveSelection{Filter: api.NewJobFilter(f)}
	if err := j.client.Do(ctx, Call{Method: http.MethodPost, Path: "/v1/redrives/preview", Body: body, Once: true}, &out); err != nil {
		return nil, asJob(err)
	}
	for _, g := range out.Groups {
		out.Total -= g.Jobs
	}
	if out.Total > 0 {
		out.Groups = append(out.Groups, job.RedriveGroup{Jobs: out.Total})
	}
	return out.Groups, nil
}

// CreateRedrive implements job.Redriver. The server chooses the ID and the actor, and runs the redrive.
func (j *Jobs) CreateRedrive(ctx context.Context, n job.NewRedrive) (job.Redrive, error) {
	return j.redrive(ctx, Call{Method: http.MethodPost, Path: "/v1/redrives", Body: api.FromNewRedrive(n), Once: true})
}

// redrive makes a request that is answered with a redrive.
func (j *Jobs) redrive(ctx context.Context, call Call) (job.Redrive, error) {
	out, err := ask[api.Redrive](ctx, j.client, call, asJob)
	return out.Redrive(), err
}

// Redrive implements job.Redriver.
func (j *Jobs) Redrive(ctx context.Context, id string) (job.Redrive, error) {
	return j.redrive(ctx, Call{Method: http.MethodGet, Path: "/v1/redrives/" + url.PathEscape(id)})
}

// Redrives implements job.Redriver.
func (j *Jobs) Redrives(ctx context.Context, q job.RedriveQuery) (list []job.Redrive, err error) {
	limit := cmp.Or(max(q.Limit, 0), 100)
	query := url.Values{}
	if q.Active {
		query.Set("active", "true")
	}
	if q.Below != "" {
		query.Set("cursor", string(api.NewCursor(api.RedriveCursor, q.Below)))
	}
	list, err = upTo(ctx, listing{j.client, Call{Path: "/v1/redrives", Query: query}, limit}, func(p *api.RedrivePage) ([]job.Redrive, api.Cursor) {
		return lists.Map(p.Redrives, func(r api.Redrive) job.Redrive { return r.Redrive() }), p.Next
	})
	return list, asJob(err)
}

// UpdateRedrive implements job.Redriver. Only a runner ends a redrive.
func (j *Jobs) UpdateRedrive(ctx context.Context, id string, c job.RedriveChange) (job.Redrive, error) {
	call := Call{Method: http.MethodPost, Path: "/v1/redrives/" + url.PathEscape(id) + "/" + url.PathEscape(string(c.Action)), Once: true}
	if c.Action == job.RedriveSetRate {
		call.Path, call.Body = "/v1/redrives/"+url.PathEscape(id)+"/rate", api.RedriveRate{Rate: c.Rate}
	}
	return j.redrive(ctx, call)
}
