package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

type queueSwitch struct {
	Queue string `path:"queue" minLength:"1" maxLength:"128"`
	Body  api.QueueSwitch
}

type periodicName struct {
	Name string `path:"name" minLength:"1" maxLength:"255"`
}

func (s *Server) queueRoutes() {
	read, operate := group{tag: "Queues", scope: policystore.ScopeRead}, group{tag: "Queues", scope: policystore.ScopeOperate, once: keyed}
	register(s, read.route(http.MethodGet, "/v1/queues", "list-queues", "List queues that are or were paused"), s.listQueues)
	register(s, operate.route(http.MethodPut, "/v1/queues/{queue}", "set-queue", "Pause or resume a queue"), s.setQueue)
	register(s, read.route(http.MethodGet, "/v1/periodic", "list-periodic", "List the periodic jobs of operators and of the server"), s.listPeriodic)
	register(s, operate.route(http.MethodPost, "/v1/periodic/{name}/run", "run-periodic", "Enqueue a periodic job now, in addition to its schedule"), s.runPeriodic)
	s.limitRoutes()
}

func (s *Server) listQueues(ctx context.Context, _ *struct{}) (*answer[api.Queues], error) {
	list, err := s.options.Jobs.Queues(ctx)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	out := api.Queues{Queues: []job.QueueState{}}
	for _, q := range list {
		if within(q.Queue, who.Queues) {
			out.Queues = append(out.Queues, q)
		}
	}
	return answers(out, nil)
}

func (s *Server) setQueue(ctx context.Context, in *queueSwitch) (*answer[job.QueueState], error) {
	q := job.QueueState{Queue: in.Queue, Paused: in.Body.Paused, Reason: in.Body.Reason, Until: in.Body.Until, Actor: callerOf(ctx).actor()}
	if err := callerOf(ctx).mayQueue(q.Queue); err != nil {
		return nil, err
	}
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if q.Paused && !q.Until.IsZero() && !q.Until.After(time.Now()) {
		return nil, fmt.Errorf("%w: until: this time has passed", errInvalid)
	}
	list, err := s.options.Jobs.Queues(ctx)
	if err != nil {
		return nil, err
	}
	o := operation.OnQueue(q)
	o.From, o.To = switchText(false), switchText(q.Paused)
	if i := slices.IndexFunc(list, func(other job.QueueState) bool { return other.Queue == q.Queue }); i >= 0 {
		o.From = switchText(list[i].Holds(time.Now()))
	}
	if err := s.record(ctx, o); err != nil {
		return nil, err
	}
	return answers(q, s.options.Jobs.SetQueue(ctx, q))
}

// switchText is the state of a queue in the audit log.
func switchText(paused bool) string {
	if paused {
		return "paused"
	}
	return "open"
}

func (s *Server) listPeriodic(ctx context.Context, _ *struct{}) (*answer[api.PeriodicList], error) {
	who := callerOf(ctx)
	out := api.PeriodicList{Periodic: []api.Periodic{}}
	list, err := s.periodicJobs(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		p, err := periodicOf(&list[i])
		if err != nil {
			return nil, err
		}
		if within(p.Queue, who.Queues) {
			out.Periodic = append(out.Periodic, p)
		}
	}
	return answers(out, nil)
}

func (s *Server) runPeriodic(ctx context.Context, in *periodicName) (*answer[api.Receipt], error) {
	list, err := s.periodicJobs(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(p job.PeriodicState) bool { return p.Name == in.Name })
	if i < 0 {
		return nil, refusal(http.StatusNotFound, "there is no periodic job of this name", "tenet periodic list shows them")
	}
	request := list[i].Request
	queue := cmp.Or(request.Queue, job.DefaultQueue)
	if err := callerOf(ctx).mayQueue(queue); err != nil {
		return nil, err
	}
	if err := s.record(ctx, operation.OnPeriodic(in.Name, queue, request.Type)); err != nil {
		return nil, err
	}
	receipt, err := job.NewClient(s.options.Jobs).Enqueue(ctx, request)
	return answers(api.Receipt(receipt), err)
}
