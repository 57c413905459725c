package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
)

var _ job.FlowStore = (*Jobs)(nil)

// EnqueueFlow implements job.FlowStore. The server chooses the IDs of the jobs. The flow may have about 32 MB as JSON.
func (j *Jobs) EnqueueFlow(ctx context.Context, f job.NewFlow) (job.FlowReceipt, error) {
	out, err := ask[api.FlowReceipt](ctx, j.client, Call{Method: http.MethodPost, Path: "/v1/flows", Body: api.FromNewFlow(f), Once: true}, asJob)
	return job.FlowReceipt(out), err
}

// Flow implements job.FlowStore.
func (j *Jobs) Flow(ctx context.Context, id string) (job.FlowStatus, error) {
	out, err := ask[api.FlowStatus](ctx, j.client, Call{Method: http.MethodGet, Path: "/v1/flows/" + url.PathEscape(id)}, asJob)
	return out.Status(), err
}

// Flows implements job.FlowStore.
func (j *Jobs) Flows(ctx context.Context, q job.FlowQuery) (list []job.FlowInfo, err error) {
	query, limit := url.Values{}, cmp.Or(max(q.Limit, 0), 100)
	if q.Below != 0 {
		query.Set("cursor", string(api.NewCursor(api.FlowCursor, q.Below)))
	}
	var fault error
	list, err = upTo(ctx, listing{j.client, Call{Path: "/v1/flows", Query: query}, limit}, func(p *api.FlowPage) ([]job.FlowInfo, api.Cursor) {
		part := lists.Map(p.Flows, func(f api.Flow) job.FlowInfo { return f.Info() })
		if p.Next != "" && len(part) > 0 {
			fault = errors.Join(fault, p.Next.Position(api.FlowCursor, &part[len(part)-1].Cursor))
		}
		return part, p.Next
	})
	return list, errors.Join(asJob(err), fault)
}

// FlowNodes implements job.FlowStore. The nodes have no outputs.
func (j *Jobs) FlowNodes(ctx context.Context, q job.NodeQuery) (list []job.FlowNode, err error) {
	path := "/v1/flows/" + url.PathEscape(q.Flow) + "/nodes"
	switch {
	case q.Flow != "":
	case q.NeededBy != "":
		path = "/v1/jobs/" + url.PathEscape(q.NeededBy) + "/needs"
	default:
		path = "/v1/jobs/" + url.PathEscape(q.DependsOn) + "/dependents"
	}
	query, limit := params.Of("node", q.Node), cmp.Or(max(q.Limit, 0), 1000)
	for after := q.After; len(list) < limit; {
		query.Set("after", strconv.Itoa(after))
		query.Set("limit", strconv.Itoa(min(limit-len(list), api.MaxBatch)))
		var page api.FlowNodePage
		if err := j.client.Do(ctx, Call{Method: http.MethodGet, Path: path, Query: query}, &page); err != nil {
			return nil, asJob(err)
		}
		for i := range page.Nodes {
			list = append(list, page.Nodes[i].FlowNode())
		}
		if after = page.Next; after == 0 {
			break
		}
	}
	return list, nil
}
