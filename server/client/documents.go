package client

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/params"
	"github.com/tenetdev/tenet/simulate"
)

// Documents are the policy documents of a server.
type Documents struct{ client *Client }

// Documents returns the server's policy documents.
func (c *Client) Documents() *Documents { return &Documents{c} }

func asPolicy(err error) error {
	return as(err, map[string]error{
		api.ProblemNotFound: policystore.ErrNotFound, api.ProblemChanged: policystore.ErrConflict, api.ProblemConflict: policystore.ErrConflict,
	})
}

func pathOf(name, rest string) string { return "/v1/documents/" + url.PathEscape(name) + rest }

// askDocuments makes a request about documents and returns its answer.
func askDocuments[T any](ctx context.Context, d *Documents, call Call) (T, error) {
	return ask[T](ctx, d.client, call, asPolicy)
}

// List lists documents by name.
func (d *Documents) List(ctx context.Context) ([]policystore.Document, error) {
	return all(ctx, d.client, Call{Path: "/v1/documents"}, func(p *api.Documents) ([]policystore.Document, api.Cursor) { return p.Documents, p.Next })
}

// Get returns the state of a document.
func (d *Documents) Get(ctx context.Context, name string) (policystore.Document, error) {
	return askDocuments[policystore.Document](ctx, d, Call{Method: http.MethodGet, Path: pathOf(name, "")})
}

// Revisions lists the revisions of a document, newest first, without their texts.
func (d *Documents) Revisions(ctx context.Context, name string) ([]api.Revision, error) {
	return all(ctx, d.client, Call{Path: pathOf(name, "/revisions")}, func(p *api.Revisions) ([]api.Revision, api.Cursor) { return p.Revisions, p.Next })
}

// Revision returns a revision with its text.
func (d *Documents) Revision(ctx context.Context, name string, number int64) (api.Revision, error) {
	return askDocuments[api.Revision](ctx, d, Call{Method: http.MethodGet, Path: pathOf(name, "/revisions/"+strconv.FormatInt(number, 10))})
}

// Diff compares two revisions.
func (d *Documents) Diff(ctx context.Context, name string, from, to int64) (api.Difference, error) {
	query := url.Values{"from": {strconv.FormatInt(from, 10)}, "to": {strconv.FormatInt(to, 10)}}
	return askDocuments[api.Difference](ctx, d, Call{Method: http.MethodGet, Path: pathOf(name, "/diff"), Query: query})
}

// Simulate runs a scenario under a revision.
func (d *Documents) Simulate(ctx context.Context, name string, number int64, in api.Simulation) (*simulate.Report, error) {
	path := pathOf(name, "/revisions/"+strconv.FormatInt(number, 10)+"/simulation")
	return askDocuments[*simulate.Report](ctx, d, Call{Method: http.MethodPost, Path: path, Body: in})
}

// Target names a document and the revision that a change replaces; 0 is a document that does not exist yet.
type Target struct {
	Name string
	Base int64
}

func (d *Documents) replace(ctx context.Context, t Target, path string, body any) (api.Published, error) {
	return askDocuments[api.Published](ctx, d, Call{Method: http.MethodPost, Path: pathOf(t.Name, path), Body: body, IfMatch: strconv.Quote(strconv.FormatInt(t.Base, 10))})
}

// Publish publishes a revision. The error is policystore.ErrConflict if the base is not in force.
func (d *Documents) Publish(ctx context.Context, t Target, in api.Publish) (api.Published, error) {
	return d.replace(ctx, t, "/revisions", in)
}

// Rollback publishes the content of an old revision anew.
func (d *Documents) Rollback(ctx context.Context, t Target, in api.Rollback) (api.Published, error) {
	return d.replace(ctx, t, "/rollback", in)
}

// Freeze refuses changes to a document until somebody unfreezes it. The reason is shown to whoever wants to change it.
func (d *Documents) Freeze(ctx context.Context, name, reason string) (policystore.Document, error) {
	return askDocuments[policystore.Document](ctx, d, Call{Method: http.MethodPut, Path: pathOf(name, "/freeze"), Body: api.Freeze{Reason: reason}, Once: true})
}

// Unfreeze allows changes to a document again.
func (d *Documents) Unfreeze(ctx context.Context, name string) (policystore.Document, error) {
	return askDocuments[policystore.Document](ctx, d, Call{Method: http.MethodDelete, Path: pathOf(name, "/freeze"), Once: true})
}

// Rollout returns the rollout of a document with its evidence.
func (d *Documents) Rollout(ctx context.Context, name string) (api.RolloutStatus, error) {
	return askDocuments[api.RolloutStatus](ctx, d, Call{Method: http.MethodGet, Path: pathOf(name, "/rollout")})
}

// RolloutAction is what can be done to a rollout in progress.
type RolloutAction string

// The actions.
const (
	PauseRollout  RolloutAction = "pause"
	ResumeRollout RolloutAction = "resume"
	AbortRollout  RolloutAction = "abort"
)

// ChangeRollout pauses, resumes or aborts the rollout of a document.
func (d *Documents) ChangeRollout(ctx context.Context, name string, action RolloutAction) (policystore.Document, error) {
	return askDocuments[policystore.Document](ctx, d, Call{Method: http.MethodPost, Path: pathOf(name, "/rollout/"+string(action)), Once: true})
}

// Trial returns the trial of a revision, with what its clients reported. The error is policystore.ErrNotFound if there is none.
func (d *Documents) Trial(ctx context.Context, name string) (api.Trial, error) {
	return askDocuments[api.Trial](ctx, d, Call{Method: http.MethodGet, Path: pathOf(name, "/trial")})
}

// EndTrial ends the trial of a revision.
func (d *Documents) EndTrial(ctx context.Context, name string) (policystore.Document, error) {
	return askDocuments[policystore.Document](ctx, d, Call{Method: http.MethodDelete, Path: pathOf(name, "/trial"), Once: true})
}

// Selection selects clients. The zero value selects all.
type Selection struct {
	Document string // that they follow
	Revision int64  // that they run
	Label    string // name=value
	Refused  bool   // only those that could not use a revision
}

// Clients lists the programs that follow documents, by document and ID.
func (d *Documents) Clients(ctx context.Context, f Selection) ([]policystore.Client, error) {
	query := params.Of("document", f.Document, "label", f.Label)
	if f.Revision != 0 {
		query.Set("revision", strconv.FormatInt(f.Revision, 10))
	}
	if f.Refused {
		query.Set("refused", "true")
	}
	return all(ctx, d.client, Call{Path: "/v1/clients", Query: query}, func(p *api.Clients) ([]policystore.Client, api.Cursor) {
		return lists.Map(p.Clients, func(c api.Client) policystore.Client { return c.Client }), p.Next
	})
}

// all reads all pages of a list.
func all[P, T any](ctx context.Context, c *Client, call Call, of func(*P) ([]T, api.Cursor)) ([]T, error) {
	list, err := upTo(ctx, listing{c, call, math.MaxInt}, of)
	return list, asPolicy(err)
}

// listing is a list of the server, of which at most limit items are read.
type listing struct {
	client *Client
	call   Call
	limit  int
}

// upTo reads the pages of a list until it has as many items as are wanted.
func upTo[P, T any](ctx context.Context, l listing, of func(*P) ([]T, api.Cursor)) (list []T, err error) {
	call := l.call
	call.Method = http.MethodGet
	if call.Query == nil {
		call.Query = url.Values{}
	}
	for len(list) < l.limit {
		call.Query.Set("limit", strconv.Itoa(min(l.limit-len(list), api.MaxBatch)))
		var page P
		if err := l.client.Do(ctx, call, &page); err != nil {
			return nil, err
		}
		items, next := of(&page)
		list = append(list, items...)
		if next == "" {
			break
		}
		call.Query.Set("cursor", string(next))
	}
	return list, nil
}

// MechanismSelection selects breakers, budgets and limits. The zero value selects all.
type MechanismSelection struct {
	Document, Client string // that have them
	Kind, Name       string // breaker, budget or limit, and its name
	State            string // open, half_open, closed, exhausted or available
}

// Query returns the selection as the query of GET /v1/mechanisms.
func (f MechanismSelection) Query() url.Values {
	return params.Of("document", f.Document, "client", f.Client, "kind", f.Kind, "name", f.Name, "state", f.State)
}

// Mechanisms lists breakers, budgets and limits by document, client, kind and name, and their totals, the worst first.
func (d *Documents) Mechanisms(ctx context.Context, f MechanismSelection) (list []api.Mechanism, totals []api.MechanismTotal, err error) {
	list, err = all(ctx, d.client, Call{Path: "/v1/mechanisms", Query: f.Query()}, func(p *api.Mechanisms) ([]api.Mechanism, api.Cursor) {
		if p.Totals != nil {
			totals = p.Totals
		}
		return p.Mechanisms, p.Next
	})
	return list, totals, err
}

// PipelineSelection selects consumers and producers. The zero value selects all.
type PipelineSelection struct {
	Document, Client string // that run them
	Kind, Name       string // consumer or producer, and its name
}

// Query returns the selection as the query of GET /v1/pipelines.
func (f PipelineSelection) Query() url.Values {
	return params.Of("document", f.Document, "client", f.Client, "kind", f.Kind, "name", f.Name)
}

// Pipelines lists consumers and producers by document, client, kind and name.
func (d *Documents) Pipelines(ctx context.Context, f PipelineSelection) ([]api.Pipeline, error) {
	return all(ctx, d.client, Call{Path: "/v1/pipelines", Query: f.Query()}, func(p *api.Pipelines) ([]api.Pipeline, api.Cursor) { return p.Pipelines, p.Next })
}
