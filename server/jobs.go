package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/internal/secrets"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// jobQuery is a search in a URL.
type jobQuery struct {
	Filter  string     `query:"filter" maxLength:"8192" doc:"For example: state:dead queue:mail before:2h" example:"state:dead"`
	Cursor  api.Cursor `query:"cursor" maxLength:"512" doc:"The next of the page before."`
	Limit   int        `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most jobs of a page. Large payloads end it earlier: only the last page has no next."`
	Secrets bool       `query:"secrets" doc:"Show secrets in payloads and metadata; needs the scope operate."`
}

type bodyOf[B any] struct{ Body B }

type jobID struct {
	ID      string `path:"id" maxLength:"64"`
	Secrets bool   `query:"secrets" doc:"Show secrets in payloads and metadata; needs the scope operate."`
}

type jobChange struct {
	Action job.Action `path:"action" enum:"retry,cancel,delete"`
	Body   api.JobChange
}

func (s *Server) jobRoutes() {
	read, operate := group{tag: "Jobs", scope: policystore.ScopeRead}, group{tag: "Jobs", scope: policystore.ScopeOperate, once: keyed}
	register(s, read.route(http.MethodGet, "/v1/jobs", "list-jobs", "List jobs by ID"),
		func(ctx context.Context, in *jobQuery) (*answer[api.JobPage], error) {
			return answers(s.searchJobs(ctx, api.JobSearch{
				Filter: api.JobFilter{Filter: in.Filter}, Cursor: in.Cursor, Limit: in.Limit, Secrets: in.Secrets,
			}))
		})
	register(s, read.ask("/v1/jobs/search", "search-jobs", "List jobs by ID, with a filter in the body"), func(ctx context.Context, in *bodyOf[api.JobSearch]) (*answer[api.JobPage], error) {
		return answers(s.searchJobs(ctx, in.Body))
	})
	register(s, read.ask("/v1/jobs/find", "find-jobs", "Find the newest jobs, in a bounded time"), func(ctx context.Context, in *bodyOf[api.JobFind]) (*answer[api.JobFound], error) {
		return answers(s.findJobs(ctx, in.Body))
	})
	count := read.ask("/v1/jobs/count", "count-jobs", "Count the jobs that a filter selects")
	count.Description = "Exact where the filter has only queues and states. Otherwise it counts for 2 seconds at most, and says whether that was enough. " + count.Description
	register(s, count, s.countJobs)
	register(s, read.route(http.MethodGet, "/v1/indexes", "list-indexes", "List the indexed fields of metadata and payloads"), s.listIndexes)
	register(s, read.route(http.MethodGet, "/v1/jobs/{id}", "get-job", "Show a job with its history"), s.getJob)
	explain := read.route(http.MethodGet, "/v1/jobs/{id}/explain", "explain-job", "Explain the attempts and decisions of a job")
	explain.Description = "From the audit log: each decision with its facts, the fields of the policy that decided, the wait with its bounds, and what the current policy decides for the same outcome in the same state. If the log has nothing of the job, from the job's own history."
	register(s, explain, s.explainJob)
	register(s, read.route(http.MethodGet, "/v1/stats", "stats", "Count jobs by queue and state"),
		func(ctx context.Context, _ *struct{}) (*answer[api.Stats], error) {
			stats, err := s.options.Jobs.Stats(ctx)
			return answers(api.NewStats(callerOf(ctx).ofQueues(stats)), err)
		})
	register(s, read.route(http.MethodGet, "/v1/workers", "list-workers", "List live workers"), s.listWorkers)

	enqueue := operate.route(http.MethodPost, "/v1/jobs", "enqueue", "Store up to 1,000 jobs, all or none")
	enqueue.MaxBodyBytes = largeBody
	register(s, enqueue, s.enqueue)
	change := operate.route(http.MethodPost, "/v1/jobs/actions/{action}", "change-jobs", "Retry, cancel or delete up to 1,000 jobs")
	change.Description = "Applies to the oldest jobs that the filter selects. Running jobs are asked to cancel, and cannot be retried or deleted."
	register(s, change, func(ctx context.Context, in *jobChange) (*answer[api.Changed], error) {
		return answers(s.change(ctx, changeRequest{name: "jobs." + string(in.Action), action: in.Action, JobChange: in.Body}))
	})
	for _, dlq := range []struct {
		verb    string
		action  job.Action
		summary string
	}{{"requeue", job.ActionRetry, "Run up to 1,000 dead jobs again"}, {"purge", job.ActionDelete, "Remove up to 1,000 dead jobs"}} {
		o := operate.route(http.MethodPost, "/v1/dlq/"+dlq.verb, dlq.verb, dlq.summary)
		register(s, o, func(ctx context.Context, in *bodyOf[api.JobChange]) (*answer[api.Changed], error) {
			f, err := deadFilter(callerOf(ctx), api.RedriveSelection{Filter: in.Body.Filter})
			if err != nil {
				return nil, err
			}
			if len(f.States) == 0 {
				in.Body.Filter.States = []job.State{job.Dead}
			}
			return answers(s.change(ctx, changeRequest{name: "dlq." + dlq.verb, action: dlq.action, JobChange: in.Body}))
		})
	}
}

// shown decides whether secrets are shown.
func shown(who *caller, asked bool) (*secrets.Redaction, error) {
	if asked && !who.Has(policystore.ScopeOperate) {
		return nil, refusal(http.StatusForbidden, "secrets are shown to the scope operate only", "ask without them")
	}
	return &secrets.Redaction{Show: asked}, nil
}

func redacted(r *job.Record, with *secrets.Redaction) *job.Record {
	hidden := *r
	hidden.Payload, hidden.Output, hidden.Meta = with.JSON(r.Payload), with.JSON(r.Output), with.Map(r.Meta)
	return &hidden
}

// filterFor parses a filter and narrows it to what a caller may see.
func filterFor(who *caller, f api.JobFilter) (job.Filter, error) {
	parsed, err := f.Parse(time.Now())
	if err != nil {
		return parsed, fmt.Errorf("%w: %w", errInvalid, err)
	}
	for _, t := range parsed.Terms {
		hides := func(v filter.Value) bool { return new(secrets.Redaction).Hides(t.Path, v.Text) }
		if t.Path != "" && slices.ContainsFunc(t.Values, hides) && !who.Has(policystore.ScopeOperate) {
			_, err = shown(who, true) // a filter would tell whether a guess is right
			return parsed, err
		}
	}
	return who.filter(parsed)
}

func (s *Server) searchJobs(ctx context.Context, q api.JobSearch) (page api.JobPage, err error) {
	who := callerOf(ctx)
	hide, err := shown(who, q.Secrets)
	if err != nil {
		return page, err
	}
	f, err := filterFor(who, q.Filter)
	if err != nil {
		return page, err
	}
	after := ""
	if err := q.Cursor.Position(api.JobCursor, &after); err != nil {
		return page, fmt.Errorf("%w: %w", errInvalid, err)
	}
	page.Jobs = []api.Job{}
	next, err := s.readJobs(ctx, f, position{after, q.Limit}, func(r *job.Record) (size int) {
		page.Jobs = append(page.Jobs, api.NewJob(redacted(r, hide), nil))
		return len(r.Payload) + len(r.Output)
	})
	if next != "" {
		page.Next = api.NewCursor(api.JobCursor, next)
	}
	return page, err
}

// Bounds of the memory for a page of jobs, whose payloads may be large.
const (
	pageBytes = 8 << 20 // after which a page ends
	pagePart  = 200     // jobs that are read at a time
)

// position is where a page begins, and how many jobs it may have.
type position struct {
	after string
	limit int
}

// readJobs reads a page of jobs in parts, and passes them to use, which returns how much memory each keeps. It returns where the next
// page begins, or "" if there are no more jobs.
func (s *Server) readJobs(ctx context.Context, f job.Filter, at position, use func(*job.Record) (size int)) (next string, err error) {
	if err := checkID("after", at.after); err != nil {
		return "", err
	}
	for size := 0; ; {
		most := min(at.limit, pagePart)
		list, err := s.options.Jobs.List(ctx, f, at.after, most)
		if err != nil {
			return "", err
		}
		for _, r := range list {
			size += use(r)
		}
		if len(list) < most {
			return "", nil
		}
		at = position{list[most-1].ID, at.limit - most}
		if at.limit == 0 || size > pageBytes {
			return at.after, nil
		}
	}
}

// checkID refuses a position that is not the ID of a job or redrive.
func checkID(field, id string) error {
	if id != "" && uuid.Validate(id) != nil {
		return fmt.Errorf("%w: %s: not an ID", errInvalid, field)
	}
	return nil
}

// searcher returns the store as one that searches.
func (s *Server) searcher() (job.Searcher, error) {
	return able[job.Searcher](s.options.Jobs, "this store cannot be searched", "list the jobs: POST /v1/jobs/search")
}

func (s *Server) findJobs(ctx context.Context, q api.JobFind) (found api.JobFound, err error) {
	who := callerOf(ctx)
	hide, err := shown(who, q.Secrets)
	if err != nil {
		return found, err
	}
	f, err := filterFor(who, q.Filter)
	if err != nil {
		return found, err
	}
	searcher, err := s.searcher()
	if err != nil {
		return found, err
	}
	if err := checkID("below", q.Below); err != nil {
		return found, err
	}
	found = api.JobFound{Jobs: []api.Job{}, Next: q.Below}
	end := time.Now().Add(cmp.Or(api.Duration(q.Within), countTime))
	for size := 0; ; {
		most := min(q.Limit-len(found.Jobs), pagePart)
		list, err := searcher.Search(ctx, job.Search{Filter: f, Below: found.Next, Limit: most, Within: max(time.Until(end), time.Millisecond)})
		if err != nil {
			return found, err
		}
		for _, r := range list.Jobs {
			found.Jobs = append(found.Jobs, api.NewJob(redacted(r, hide), nil))
			size += len(r.Payload) + len(r.Output)
		}
		found.Next, found.Unindexed = list.Next, list.Unindexed
		if found.Next == "" || len(list.Jobs) < most || len(found.Jobs) == q.Limit || size > pageBytes {
			return found, nil
		}
	}
}

func (s *Server) listIndexes(ctx context.Context, _ *struct{}) (*answer[api.Indexes], error) {
	searcher, err := s.searcher()
	if err != nil {
		return nil, err
	}
	fields, err := searcher.Indexes(ctx)
	return answers(api.Indexes{Fields: orEmpty(fields)}, err)
}

func (s *Server) getJob(ctx context.Context, in *jobID) (*answer[api.Job], error) {
	who := callerOf(ctx)
	hide, err := shown(who, in.Secrets)
	if err != nil {
		return nil, err
	}
	r, history, err := s.options.Jobs.Get(ctx, in.ID)
	switch {
	case err != nil:
		return nil, err
	case !within(r.Queue, who.Queues):
		return nil, &job.NotFoundError{What: "job", ID: in.ID} // to this caller
	}
	return answers(api.NewJob(redacted(r, hide), orEmpty(history)), nil)
}

func (s *Server) listWorkers(ctx context.Context, _ *struct{}) (*answer[api.Workers], error) {
	list := []job.WorkerInfo{}
	if registry, ok := s.options.Jobs.(job.Registry); ok {
		var err error
		if list, err = registry.Workers(ctx); err != nil {
			return nil, err
		}
	}
	who := callerOf(ctx)
	out := api.Workers{Workers: []job.WorkerInfo{}}
	for _, w := range list {
		w.Queues = slices.DeleteFunc(slices.Clone(w.Queues), func(q string) bool { return !within(q, who.Queues) })
		if len(w.Queues) > 0 {
			out.Workers = append(out.Workers, w)
		}
	}
	return answers(out, nil)
}

func (s *Server) enqueue(ctx context.Context, in *bodyOf[api.Enqueue]) (*answer[api.Receipts], error) {
	who := callerOf(ctx)
	requests := make([]job.Request, len(in.Body.Jobs))
	for i := range in.Body.Jobs {
		if err := onePayload(i, &in.Body.Jobs[i]); err != nil {
			return nil, err
		}
		requests[i] = in.Body.Jobs[i].Request()
		queue := cmp.Or(requests[i].Queue, job.DefaultQueue)
		if err := who.mayQueue(queue); err != nil {
			return nil, err
		}
	}
	list, err := job.Inserts(requests)
	if err != nil {
		return nil, err
	}
	if err := s.record(ctx, audit.Operation{Action: "jobs.enqueue", To: string(job.Ready), Attributes: summary(list)}); err != nil {
		return nil, err
	}
	receipts, err := s.options.Jobs.Enqueue(ctx, list)
	if err != nil {
		return nil, err
	}
	return answers(api.Receipts{Receipts: lists.Map(receipts, func(r job.Receipt) api.Receipt { return api.Receipt(r) })}, nil)
}

// onePayload refuses a job with two payloads, of which one would be lost.
func onePayload(i int, r *api.NewJobRequest) error {
	if len(r.PayloadBase64) > 0 && len(r.Payload) > 0 && string(r.Payload) != "null" {
		return invalid(fmt.Sprintf("body.jobs[%d].payload_base64", i), "there is a payload, too; give one of the two")
	}
	return nil
}

// summary describes jobs that are to be stored for the audit log.
func summary(list []job.Insert) map[string]string {
	queues := map[string]int{}
	for _, in := range list {
		queues[in.Queue]++
	}
	attributes := map[string]string{"jobs": strconv.Itoa(len(list)), "first": list[0].ID, "last": list[len(list)-1].ID}
	if len(queues) == 1 {
		attributes["queue"] = list[0].Queue
	} else {
		attributes["queues"] = strconv.Itoa(len(queues))
	}
	return attributes
}

// record puts a change on record, before it is made.
func (s *Server) record(ctx context.Context, o audit.Operation) error {
	o.Actor = callerOf(ctx).actor()
	if err := operation.Record(ctx, s.options.Log, o); err != nil {
		s.options.Logger.ErrorContext(ctx, "the audit log refuses the actions of operators", "error", err)
		return refusal(http.StatusServiceUnavailable, "the audit log did not take the action, so nothing was done", "try again after the time in Retry-After").retryIn(awayTime)
	}
	return nil
}

type changeRequest struct {
	name   string
	action job.Action
	api.JobChange
}

// after is the state that an action leads to, for the audit log.
func after(a job.Action) string {
	switch a {
	case job.ActionRetry:
		return string(job.Ready)
	case job.ActionCancel:
		return string(job.Cancelled)
	case job.ActionDelete:
	}
	return "deleted"
}

// change looks up the jobs first, so that exactly these are on record before any of them is changed.
func (s *Server) change(ctx context.Context, c changeRequest) (out api.Changed, err error) {
	f, err := filterFor(callerOf(ctx), c.Filter)
	if err != nil {
		return out, err
	}
	out.IDs = []string{}
	states := slices.DeleteFunc(job.States(), func(st job.State) bool {
		return !c.action.Applies(st) || len(f.States) > 0 && !slices.Contains(f.States, st)
	})
	if len(states) == 0 {
		return out, nil
	}
	f.States = states
	var list []*job.Record // without their payloads
	out.Next, err = s.readJobs(ctx, f, position{c.After, c.Limit}, func(r *job.Record) (size int) {
		list = append(list, &job.Record{ID: r.ID, Queue: r.Queue, Type: r.Type, State: r.State})
		return 0
	})
	if err != nil || len(list) == 0 {
		return out, err
	}
	o, err := operation.OnRecords(c.name, list)
	if err != nil {
		return out, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if o.To = after(c.action); o.From == "" && len(states) == 1 {
		o.From = string(states[0])
	}
	if err := s.record(ctx, o); err != nil {
		return out, err
	}
	f.IDs = lists.Map(list, func(r *job.Record) string { return r.ID })
	changed, err := s.options.Jobs.Change(ctx, c.action, f, len(f.IDs))
	if changed != nil {
		out.IDs = changed
	}
	return out, err
}
