package server

import (
	"context"
	"net/http"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

type flowID struct {
	ID string `path:"id" maxLength:"128"`
}

// NodesQuery asks for a page of jobs of a flow, or of those around a job.
type NodesQuery struct {
	ID    string `path:"id" maxLength:"128"`
	Node  string `query:"node" maxLength:"128" doc:"Only this node."`
	After int    `query:"after" minimum:"0" doc:"Only jobs with higher positions: the next of the page before."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"1000"`
}

type relatedNodes struct {
	NodesQuery
	Relation string `path:"relation" enum:"needs,dependents"`
}

type flowAction struct {
	ID     string     `path:"id" maxLength:"128"`
	Action job.Action `path:"action" enum:"cancel,retry"`
	Body   api.FlowChange
}

func (s *Server) flowRoutes() {
	read, operate := group{tag: "Flows", scope: policystore.ScopeRead}, group{tag: "Flows", scope: policystore.ScopeOperate, once: keyed}
	register(s, read.route(http.MethodGet, "/v1/flows", "list-flows", "List flows, newest first"), s.listFlows)
	register(s, read.route(http.MethodGet, "/v1/flows/{id}", "get-flow", "Show a flow with the states of its jobs"), s.getFlow)
	register(s, read.route(http.MethodGet, "/v1/flows/{id}/nodes", "list-flow-nodes", "List the jobs of a flow"), func(ctx context.Context, in *NodesQuery) (*answer[api.FlowNodePage], error) {
		return s.listNodes(ctx, *in, job.NodeQuery{Flow: in.ID})
	})
	register(s, read.route(http.MethodGet, "/v1/jobs/{id}/{relation}", "list-related-jobs", "List the needs or the dependents of a job of a flow"), func(ctx context.Context, in *relatedNodes) (*answer[api.FlowNodePage], error) {
		if in.Relation == "needs" {
			return s.listNodes(ctx, in.NodesQuery, job.NodeQuery{NeededBy: in.ID})
		}
		return s.listNodes(ctx, in.NodesQuery, job.NodeQuery{DependsOn: in.ID})
	})
	create := operate.route(http.MethodPost, "/v1/flows", "enqueue-flow", "Store a flow: jobs that need each other")
	create.Description = "Stores all jobs in one transaction, or none. The request is bounded to 32 MiB."
	create.MaxBodyBytes = largeBody
	register(s, create, s.enqueueFlow)
	change := operate.route(http.MethodPost, "/v1/flows/{id}/{action}", "change-flow", "Cancel a flow, or retry what failed")
	change.Description = "cancel applies to the jobs that have not finished. retry applies to the dead and cancelled jobs; those with unmet needs wait again."
	register(s, change, s.changeFlow)
}

// flows returns the store as one that keeps flows. Flows span queues, so that callers who are bound to some see none.
func (s *Server) flows(ctx context.Context) (job.FlowStore, error) {
	if len(callerOf(ctx).Queues) > 0 {
		return nil, refusal(http.StatusForbidden, "flows span queues, and this token is bound to some", "use a token that is not bound to queues, or search the jobs with flow:ID")
	}
	return able[job.FlowStore](s.options.Jobs, "this store keeps no flows", "use a memory, SQLite or PostgreSQL store")
}

var flowList = listing[int64, job.FlowInfo]{api.FlowCursor, func(f job.FlowInfo) int64 { return f.Cursor }}

func (s *Server) listFlows(ctx context.Context, in *PageQuery) (*answer[api.FlowPage], error) {
	store, err := s.flows(ctx)
	if err != nil {
		return nil, err
	}
	list, next, err := flowList.page(ctx, *in, func(ctx context.Context, below int64, limit int) ([]job.FlowInfo, error) {
		return store.Flows(ctx, job.FlowQuery{Below: below, Limit: limit})
	})
	return answers(api.FlowPage{Flows: lists.Map(list, api.NewFlowInfo), Next: next}, err)
}

func (s *Server) getFlow(ctx context.Context, in *flowID) (*answer[api.FlowStatus], error) {
	store, err := s.flows(ctx)
	if err != nil {
		return nil, err
	}
	f, err := store.Flow(ctx, in.ID)
	return answers(api.NewFlowStatus(f), err)
}

func (s *Server) listNodes(ctx context.Context, in NodesQuery, q job.NodeQuery) (*answer[api.FlowNodePage], error) {
	store, err := s.flows(ctx)
	if err != nil {
		return nil, err
	}
	q.Node, q.After, q.Limit = in.Node, in.After, in.Limit
	list, err := store.FlowNodes(ctx, q)
	page := api.FlowNodePage{Nodes: lists.Map(list, api.NewFlowNode)}
	if len(list) == in.Limit {
		page.Next = list[len(list)-1].Position
	}
	return answers(page, err)
}

func (s *Server) enqueueFlow(ctx context.Context, in *bodyOf[api.NewFlow]) (*answer[api.FlowReceipt], error) {
	store, err := s.flows(ctx)
	if err != nil {
		return nil, err
	}
	for i := range in.Body.Jobs {
		if err := onePayload(i, &in.Body.Jobs[i].NewJobRequest); err != nil {
			return nil, err
		}
	}
	f, err := in.Body.Flow().Inserts()
	if err != nil {
		return nil, err
	}
	attributes := summary(lists.Map(f.Jobs, func(j job.FlowInsert) job.Insert { return j.Insert }))
	attributes["flow"] = f.ID
	if err := s.record(ctx, audit.Operation{Action: "flows.enqueue", To: string(job.Ready), Attributes: attributes}); err != nil {
		return nil, err
	}
	receipt, err := store.EnqueueFlow(ctx, f)
	return answers(api.FlowReceipt(receipt), err)
}

func (s *Server) changeFlow(ctx context.Context, in *flowAction) (*answer[api.Changed], error) {
	store, err := s.flows(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := store.FlowNodes(ctx, job.NodeQuery{Flow: in.ID, Limit: 1}); err != nil {
		return nil, err
	}
	f := job.Filter{Terms: filter.Terms{{Field: job.FieldFlow, Values: filter.Exactly(in.ID)}}}
	if in.Action == job.ActionRetry {
		f.States = []job.State{job.Dead, job.Cancelled}
	}
	return answers(s.change(ctx, changeRequest{"flows." + string(in.Action), in.Action, api.JobChange{Filter: api.NewJobFilter(f), After: in.Body.After, Limit: in.Body.Limit}}))
}
