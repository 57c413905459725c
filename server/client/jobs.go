package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
)

// Jobs are the jobs of a server. It enqueues, inspects and changes jobs; a server hands out no leases, so that the other
// methods of job.Store fail.
type Jobs struct{ client *Client }

var (
	_ job.Store    = (*Jobs)(nil)
	_ job.Admin    = (*Jobs)(nil)
	_ job.Registry = (*Jobs)(nil)
	_ job.Searcher = (*Jobs)(nil)
)

var errLeases = fmt.Errorf("client: a server hands out no leases; workers open its store: %w", errors.ErrUnsupported)

func asJob(err error) error {
	return as(err, map[string]error{api.ProblemNotFound: job.ErrNotFound, api.ProblemConflict: job.ErrConflict})
}

// Enqueue implements job.Store. At most 1,000 jobs can be stored at a time. The server chooses the IDs.
func (j *Jobs) Enqueue(ctx context.Context, jobs []job.Insert) ([]job.Receipt, error) {
	body := api.Enqueue{Jobs: lists.Map(jobs, api.FromInsert)}
	var out api.Receipts
	if err := j.client.Do(ctx, Call{Method: http.MethodPost, Path: "/v1/jobs", Body: body, Once: true}, &out); err != nil {
		return nil, asJob(err)
	}
	return lists.Map(out.Receipts, func(r api.Receipt) job.Receipt { return job.Receipt(r) }), nil
}

// Get implements job.Admin.
func (j *Jobs) Get(ctx context.Context, id string) (*job.Record, []job.Attempt, error) {
	var out api.Job
	call := Call{Method: http.MethodGet, Path: "/v1/jobs/" + url.PathEscape(id)}
	if j.client.options.Secrets {
		call.Query = url.Values{"secrets": {"true"}}
	}
	if err := j.client.Do(ctx, call, &out); err != nil {
		return nil, nil, asJob(err)
	}
	r, history := out.Record()
	return r, history, nil
}

// List implements job.Admin. It reads pages that are too large for one answer in parts.
func (j *Jobs) List(ctx context.Context, f job.Filter, after string, limit int) ([]*job.Record, error) {
	if limit < 1 {
		return nil, nil
	}
	search := api.JobSearch{Filter: api.NewJobFilter(f), Secrets: j.client.options.Secrets}
	if after != "" {
		search.Cursor = api.NewCursor(api.JobCursor, after)
	}
	var list []*job.Record
	for most := api.MaxBatch; ; {
		search.Limit = min(limit-len(list), most)
		var page api.JobPage
		err := j.client.Do(ctx, Call{Method: http.MethodPost, Path: "/v1/jobs/search", Body: search, Once: true}, &page)
		if errors.Is(err, errLarge) && search.Limit > 1 {
			most = search.Limit / 2
			continue
		}
		if err != nil {
			return nil, asJob(err)
		}
		for i := range page.Jobs {
			r, _ := page.Jobs[i].Record()
			list = append(list, r)
		}
		if search.Cursor = page.Next; page.Next == "" || len(list) >= limit {
			return list, nil
		}
	}
}

// Count counts the jobs that a filter selects, for 2 seconds at most.
func (j *Jobs) Count(ctx context.Context, f job.Filter) (api.JobCount, error) {
	body := api.JobCounting{Filter: api.NewJobFilter(f)}
	return ask[api.JobCount](ctx, j.client, Call{Method: http.MethodPost, Path: "/v1/jobs/count", Body: body, Once: true}, asJob)
}

// Search implements job.Searcher.
func (j *Jobs) Search(ctx context.Context, q job.Search) (found job.Found, err error) {
	q.Limit = cmp.Or(max(q.Limit, 0), 100)
	body := api.JobFind{
		Filter: api.NewJobFilter(q.Filter), Below: q.Below, Limit: min(q.Limit, api.MaxBatch), Within: min(q.Within, 10*time.Second).Seconds(), Secrets: j.client.options.Secrets,
	}
	var out api.JobFound
	if err := j.client.Do(ctx, Call{Method: http.MethodPost, Path: "/v1/jobs/find", Body: body, Once: true}, &out); err != nil {
		return found, asJob(err)
	}
	found.Next, found.Unindexed = out.Next, out.Unindexed
	for i := range out.Jobs {
		r, _ := out.Jobs[i].Record()
		found.Jobs = append(found.Jobs, r)
	}
	return found, nil
}

// Indexes implements job.Searcher.
func (j *Jobs) Indexes(ctx context.Context) ([]string, error) {
	out, err := ask[api.Indexes](ctx, j.client, Call{Method: http.MethodGet, Path: "/v1/indexes"}, asJob)
	return out.Fields, err
}

// Stats implements job.Admin.
func (j *Jobs) Stats(ctx context.Context) (map[string]job.QueueStats, error) {
	out, err := ask[api.Stats](ctx, j.client, Call{Method: http.MethodGet, Path: "/v1/stats"}, asJob)
	return out.Stats(), err
}

// Change implements job.Admin. It changes at most 1,000 jobs at a time.
func (j *Jobs) Change(ctx context.Context, action job.Action, f job.Filter, limit int) ([]string, error) {
	if err := action.Check(); err != nil || limit < 1 {
		return nil, err
	}
	path := "/v1/jobs/actions/" + string(action)
	if slices.Equal(f.States, []job.State{job.Dead}) { // the audit log then says what it is
		switch action {
		case job.ActionRetry:
			path = "/v1/dlq/requeue"
		case job.ActionDelete:
			path = "/v1/dlq/purge"
		case job.ActionCancel:
		}
	}
	body := api.JobChange{Filter: api.NewJobFilter(f), Limit: min(limit, api.MaxBatch)}
	out, err := ask[api.Changed](ctx, j.client, Call{Method: http.MethodPost, Path: path, Body: body, Once: true}, asJob)
	return out.IDs, err
}

// Queues implements job.Admin.
func (j *Jobs) Queues(ctx context.Context) ([]job.QueueState, error) {
	out, err := ask[api.Queues](ctx, j.client, Call{Method: http.MethodGet, Path: "/v1/queues"}, asJob)
	return out.Queues, err
}

// SetQueue implements job.Admin.
func (j *Jobs) SetQueue(ctx context.Context, q job.QueueState) error {
	body := api.QueueSwitch{Paused: q.Paused, Reason: q.Reason, Until: q.Until}
	return asJob(j.client.Do(ctx, Call{Method: http.MethodPut, Path: "/v1/queues/" + url.PathEscape(q.Queue), Body: body, Once: true}, nil))
}

// Workers implements job.Registry.
func (j *Jobs) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
	out, err := ask[api.Workers](ctx, j.client, Call{Method: http.MethodGet, Path: "/v1/workers"}, asJob)
	return out.Workers, err
}

// Announce fails: workers open the store.
func (j *Jobs) Announce(context.Context, job.WorkerInfo, time.Duration) error { return errLeases }

// Claim fails: workers open the store.
func (j *Jobs) Claim(context.Context, job.Claim) ([]*job.Record, error) { return nil, errLeases }

// Extend fails: workers open the store.
func (j *Jobs) Extend(_ context.Context, leases []job.Ref, _ time.Duration) []error {
	return failures(len(leases))
}

// Settle fails: workers open the store.
func (j *Jobs) Settle(_ context.Context, list []job.Settlement) []error { return failures(len(list)) }

func failures(n int) []error { return slices.Repeat([]error{errLeases}, n) }

// Maintain fails: workers open the store.
func (j *Jobs) Maintain(context.Context, job.Maintenance) (job.Maintained, error) {
	return job.Maintained{}, errLeases
}

// Close releases idle connections.
func (j *Jobs) Close() error {
	j.client.options.HTTP.CloseIdleConnections()
	return nil
}
