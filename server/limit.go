package server

import (
	"context"
	"net/http"

	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// shownBuckets is how many buckets of a limit are listed.
const shownBuckets = 20

// LimitName is a limit in a path and query. It is exported because inputs embed it, as PageQuery is.
type LimitName struct {
	Name  string `path:"name" minLength:"1" maxLength:"64"`
	Queue string `query:"queue" maxLength:"255" doc:"The queue of the limit; give this or type."`
	Type  string `query:"type" maxLength:"255" doc:"The type of the limit; give this or queue."`
}

type limitSetting struct {
	LimitName
	Body api.LimitSetting
}

func (n *LimitName) name() job.LimitName {
	return job.LimitName{Queue: n.Queue, Type: n.Type, Name: n.Name}
}

func (s *Server) limitRoutes() {
	if _, ok := s.options.Jobs.(job.Limiter); !ok {
		return
	}
	read, operate := group{tag: "Queues", scope: policystore.ScopeRead}, group{tag: "Queues", scope: policystore.ScopeOperate, once: keyed}
	register(s, read.route(http.MethodGet, "/v1/limits", "list-limits", "List the limits of jobs, with their buckets in use"), s.listLimits)
	register(s, operate.route(http.MethodPut, "/v1/limits/{name}", "set-limit", "Set a limit of a queue or type, above what documents say"), s.setLimit)
	register(s, operate.route(http.MethodDelete, "/v1/limits/{name}", "reset-limit", "Remove the setting of a limit: documents apply again"), s.resetLimit)
}

func (s *Server) listLimits(ctx context.Context, _ *struct{}) (*answer[api.Limits], error) {
	limiter := s.options.Jobs.(job.Limiter)
	list, err := limiter.Limits(ctx)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	out := api.Limits{Limits: []api.Limit{}}
	for _, l := range list {
		if len(who.Queues) > 0 && (l.Queue == "" || !within(l.Queue, who.Queues)) {
			continue
		}
		use, err := limiter.LimitUse(ctx, l.LimitName, shownBuckets)
		if err != nil {
			return nil, err
		}
		out.Limits = append(out.Limits, api.NewLimit(l, use))
	}
	return answers(out, nil)
}

func (s *Server) setLimit(ctx context.Context, in *limitSetting) (*answer[api.Limit], error) {
	if in.Body.Values == nil && !in.Body.Off { // a setting of neither would be none
		return nil, invalid("body.values", "missing; give values or off, or remove the setting with DELETE")
	}
	return s.changeLimit(ctx, in.Body.Setting(in.name()))
}

func (s *Server) resetLimit(ctx context.Context, in *LimitName) (*answer[api.Limit], error) {
	return s.changeLimit(ctx, job.LimitSetting{LimitName: in.name()})
}

// changeLimit records and stores a setting. A limit of a type bounds the jobs of all queues.
func (s *Server) changeLimit(ctx context.Context, setting job.LimitSetting) (*answer[api.Limit], error) {
	who := callerOf(ctx)
	if err := who.mayQueue(setting.Queue); err != nil {
		return nil, err
	}
	if err := setting.Check(); err != nil {
		return nil, invalid("", err.Error())
	}
	limiter := s.options.Jobs.(job.Limiter)
	before, err := job.FindLimit(ctx, limiter, setting.LimitName)
	if err != nil {
		return nil, err
	}
	if err := s.record(ctx, operation.OnLimit(before, setting)); err != nil {
		return nil, err
	}
	if err := limiter.SetLimit(ctx, setting); err != nil {
		return nil, err
	}
	after, err := job.FindLimit(ctx, limiter, setting.LimitName)
	return answers(api.NewLimit(after, job.LimitUse{}), err)
}
