package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/documents"
	"github.com/tenetdev/tenet/server/internal/rollouts"
	"github.com/tenetdev/tenet/simulate"
)

// DocumentName is the document in a path.
type DocumentName struct {
	Name string `path:"name" minLength:"1" maxLength:"255"`
}

type documentAnswer struct {
	ETag string `header:"ETag" doc:"The revision in force, for If-Match."`
	Body policystore.Document
}

type documentChange[B any] struct {
	DocumentName
	IfMatch string `header:"If-Match" hidden:"true"`
	Body    B
}

type revisionPage struct {
	DocumentName
	PageQuery
}

// RevisionName is the revision of a document in a path.
type RevisionName struct {
	DocumentName
	Revision int64 `path:"revision" minimum:"1"`
}

type proofPage struct {
	RevisionName
	PageQuery
}

type simulation struct {
	RevisionName
	Body api.Simulation
}

type rulesPage struct {
	RevisionName
	PageQuery
	Rule string `query:"rule" maxLength:"1024" doc:"Only the one of this name."`
}

type diffQuery struct {
	DocumentName
	From int64 `query:"from" required:"true" minimum:"1"`
	To   int64 `query:"to" required:"true" minimum:"1"`
}

type checkedDocument struct {
	DocumentName
	Body api.Check
}

// StartedRevision names the rollout or trial that a change is about.
type StartedRevision struct {
	Revision int64 `query:"revision" minimum:"0" doc:"Refuse the change with 409 unless this revision is the one that is rolled out or under trial; absent or 0: whichever is."`
}

type rolloutAction struct {
	DocumentName
	StartedRevision
	Action string `path:"action" enum:"pause,resume,abort"`
}

type trialEnd struct {
	DocumentName
	StartedRevision
}

// documentPath begins the paths of operations on one document. A caller that is bound to others is refused by admit.
const documentPath = "/v1/documents/{name}"

func (s *Server) documentRoutes() {
	read, publish := group{tag: "Documents", scope: policystore.ScopeRead}, group{tag: "Documents", scope: policystore.ScopePublish, once: keyed}
	based := func(r route) route {
		r.once = condition
		r.Description = `If-Match names the revision that is replaced, as the ETag of the document does: "7"; "0" for a document that does not exist yet, * for any.`
		r.MaxBodyBytes = 4 << 20
		return r
	}
	check := read.route(http.MethodPost, documentPath+"/check", "check-document", "Say what publishing a text would do, without publishing it")
	check.MaxBodyBytes = 4 << 20
	register(s, read.route(http.MethodGet, "/v1/documents", "list-documents", "List documents by name"), s.listDocuments)
	register(s, read.route(http.MethodGet, documentPath, "get-document", "Show the state of a document"), s.getDocument)
	register(s, read.route(http.MethodGet, documentPath+"/revisions", "list-revisions", "List the revisions of a document, newest first"), s.listRevisions)
	register(s, read.route(http.MethodGet, documentPath+"/revisions/{revision}", "get-revision", "Show a revision with its text"), s.getRevision)
	register(s, read.route(http.MethodGet, documentPath+"/revisions/{revision}/rules", "list-rules", "List what a revision says, with the origin of each value"), s.listRules)
	register(s, read.route(http.MethodGet, documentPath+"/revisions/{revision}/proof", "prove-revision", "Say what can be proved of a revision, with a counterexample for each violation"), s.proveRevision)
	register(s, read.route(http.MethodPost, documentPath+"/revisions/{revision}/simulation", "simulate-revision", "Run a scenario under a revision in simulated time"), s.simulate)
	register(s, check, s.check)
	register(s, read.route(http.MethodGet, documentPath+"/diff", "diff-revisions", "Compare two revisions"), s.diff)
	register(s, based(publish.route(http.MethodPost, documentPath+"/revisions", "publish", "Publish a revision")), s.publish)
	register(s, based(publish.route(http.MethodPost, documentPath+"/rollback", "rollback", "Publish the content of an old revision anew")), s.rollback)
	register(s, read.route(http.MethodGet, documentPath+"/rollout", "get-rollout", "Show the rollout of a document with its evidence"), s.getRollout)
	register(s, publish.route(http.MethodPost, documentPath+"/rollout/{action}", "change-rollout", "Pause, resume or abort the rollout of a document"), s.changeRollout)
	register(s, read.route(http.MethodGet, documentPath+"/trial", "get-trial", "Show what the revision under trial would have decided otherwise"), s.getTrial)
	register(s, publish.route(http.MethodDelete, documentPath+"/trial", "end-trial", "End the trial of a revision"), func(ctx context.Context, in *trialEnd) (*documentAnswer, error) {
		return s.changeDocument(ctx, in.Name, audit.Operation{Action: "documents.end-trial", To: trialText(nil)}, func() (policystore.Document, error) {
			return s.documents.EndTrial(ctx, in.Name, in.Revision)
		})
	})
	register(s, publish.route(http.MethodPut, documentPath+"/freeze", "freeze", "Refuse changes to a document"), func(ctx context.Context, in *documentChange[api.Freeze]) (*documentAnswer, error) {
		return s.changeDocument(ctx, in.Name, audit.Operation{Action: "documents.freeze", To: "frozen", Detail: in.Body.Reason}, func() (policystore.Document, error) {
			return s.documents.Freeze(ctx, in.Name, policystore.Freeze{Actor: callerOf(ctx).actor(), Reason: in.Body.Reason})
		})
	})
	register(s, publish.route(http.MethodDelete, documentPath+"/freeze", "unfreeze", "Allow changes to a document again"), func(ctx context.Context, in *DocumentName) (*documentAnswer, error) {
		return s.changeDocument(ctx, in.Name, audit.Operation{Action: "documents.unfreeze", To: freezeText(nil)}, func() (policystore.Document, error) {
			return s.documents.Unfreeze(ctx, in.Name)
		})
	})
}

// revisionTag is the entity tag of a document: the revision in force.
func revisionTag(number int64) string { return strconv.Quote(strconv.FormatInt(number, 10)) }

// strong returns an entity tag as the server wrote it: proxies that compress an answer make its tag weak.
func strong(tag string) string { return strings.TrimPrefix(tag, "W/") }

// baseOf reads the revision that a change replaces.
func baseOf(tag string) (int64, error) {
	if tag == "*" {
		return documents.AnyBase, nil
	}
	number, err := strconv.ParseInt(strings.Trim(strong(tag), `"`), 10, 64)
	if err != nil || number < 0 {
		return 0, fmt.Errorf(`%w: If-Match: write the revision that is replaced, such as "7", or *`, errInvalid)
	}
	return number, nil
}

var documentList = listing[string, policystore.Document]{"documents", func(d policystore.Document) string { return d.Name }}

// listDocuments looks at one page of the store: a bound caller may get fewer documents, or none, and a next page.
func (s *Server) listDocuments(ctx context.Context, in *PageQuery) (*answer[api.Documents], error) {
	list, next, err := documentList.page(ctx, *in, s.options.Policies.Documents)
	page := api.Documents{Documents: []policystore.Document{}, Next: next}
	for _, d := range list {
		if within(d.Name, callerOf(ctx).Documents) {
			page.Documents = append(page.Documents, d)
		}
	}
	return answers(page, err)
}

func (s *Server) getDocument(ctx context.Context, in *DocumentName) (*documentAnswer, error) {
	d, err := s.options.Policies.Document(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	return &documentAnswer{revisionTag(d.Current), d}, nil
}

var revisionList = listing[int64, policystore.Revision]{"revisions", func(r policystore.Revision) int64 { return r.Number }}

func (s *Server) listRevisions(ctx context.Context, in *revisionPage) (*answer[api.Revisions], error) {
	if _, err := s.getDocument(ctx, &in.DocumentName); err != nil {
		return nil, err
	}
	list, next, err := revisionList.page(ctx, in.PageQuery, func(ctx context.Context, below int64, limit int) ([]policystore.Revision, error) {
		return s.options.Policies.Revisions(ctx, in.Name, below, limit)
	})
	return answers(api.Revisions{Revisions: lists.Map(list, api.NewRevision), Next: next}, err)
}

func (s *Server) getRevision(ctx context.Context, in *RevisionName) (*answer[api.Revision], error) {
	r, err := s.options.Policies.Revision(ctx, in.Name, in.Revision)
	return answers(api.NewRevision(r), err)
}

const ruleCursor = "rules"

func (s *Server) listRules(ctx context.Context, in *rulesPage) (*answer[api.Rules], error) {
	var from int
	if err := in.Cursor.Position(ruleCursor, &from); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	list, err := s.documents.Rules(ctx, in.Name, in.Revision)
	if err != nil {
		return nil, err
	}
	page := api.Rules{Rules: []api.Rule{}}
	for i, rule := range list[min(max(from, 0), len(list)):] {
		if in.Rule != "" && in.Rule != rule.Name {
			continue
		}
		if len(page.Rules) == in.Limit {
			page.Next = api.NewCursor(ruleCursor, from+i)
			break
		}
		page.Rules = append(page.Rules, rule)
	}
	return answers(page, nil)
}

const proofCursor = "proof"

func (s *Server) proveRevision(ctx context.Context, in *proofPage) (*answer[api.Proof], error) {
	var from int
	if err := in.Cursor.Position(proofCursor, &from); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	list, err := s.documents.Proof(ctx, in.Name, in.Revision)
	if err != nil {
		return nil, err
	}
	page := api.NewProof(list)
	from = min(max(from, 0), len(list))
	end := min(from+in.Limit, len(list))
	page.Findings = lists.Map(list[from:end], api.NewFinding)
	if end < len(list) {
		page.Next = api.NewCursor(proofCursor, end)
	}
	return answers(page, nil)
}

func (s *Server) simulate(ctx context.Context, in *simulation) (*answer[*simulate.Report], error) {
	return answers(s.documents.Simulate(ctx, documents.Simulation{
		Name: in.Name, Revision: in.Revision, Scenario: in.Body.Scenario, Seed: in.Body.Seed,
	}))
}

func (s *Server) check(ctx context.Context, in *checkedDocument) (*answer[api.Checked], error) {
	c, err := s.documents.Check(ctx, in.Name, []byte(in.Body.Body))
	c.Faults, c.Warnings, c.Fields = orEmpty(c.Faults), orEmpty(c.Warnings), orEmpty(c.Fields)
	return answers(c, err)
}

func (s *Server) diff(ctx context.Context, in *diffQuery) (*answer[api.Difference], error) {
	d, err := s.documents.Diff(ctx, in.Name, in.From, in.To)
	d.Fields = orEmpty(d.Fields)
	return answers(d, err)
}

func (s *Server) publish(ctx context.Context, in *documentChange[api.Publish]) (*answer[api.Published], error) {
	base, err := baseOf(in.IfMatch)
	if err != nil {
		return nil, err
	}
	change := documents.Change{Name: in.Name, Base: base, Author: callerOf(ctx).actor(), Message: in.Body.Message, Plan: in.Body.Rollout.Plan(), Trial: in.Body.Trial}
	return s.published(ctx, audit.Operation{Action: "documents.publish", Detail: in.Body.Message, To: digest(in.Body.Body)}, change, func() (documents.Published, error) {
		return s.documents.Publish(ctx, change, []byte(in.Body.Body), in.Body.AcceptWarnings)
	})
}

func (s *Server) rollback(ctx context.Context, in *documentChange[api.Rollback]) (*answer[api.Published], error) {
	base, err := baseOf(in.IfMatch)
	if err != nil {
		return nil, err
	}
	change := documents.Change{Name: in.Name, Base: base, Author: callerOf(ctx).actor(), Message: in.Body.Message, Plan: in.Body.Rollout.Plan()}
	o := audit.Operation{Action: "documents.rollback", Detail: in.Body.Message, To: "the content of revision " + strconv.FormatInt(in.Body.To, 10)}
	return s.published(ctx, o, change, func() (documents.Published, error) { return s.documents.Rollback(ctx, change, in.Body.To) })
}

func (s *Server) published(ctx context.Context, o audit.Operation, c documents.Change, change func() (documents.Published, error)) (*answer[api.Published], error) {
	o, err := s.onDocument(ctx, c.Name, o)
	if err != nil {
		return nil, err
	}
	if c.Plan != nil {
		o.Attributes["rollout"] = strconv.Itoa(len(c.Plan.WithDefaults().Steps)) + " steps"
	}
	if c.Trial {
		o.Attributes["trial"] = "true"
	}
	if err := s.record(ctx, o); err != nil {
		return nil, err
	}
	p, err := change()
	if err != nil {
		return nil, s.refused(ctx, o, err)
	}
	out := api.Published{Name: c.Name, Revision: p.Revision.Number, Hash: p.Revision.Hash, Warnings: lists.Map(p.Warnings, api.NewFault)}
	if c.Plan != nil {
		out.Rollout = p.Document.Rollout
	}
	out.Trial = c.Trial
	return answers(out, nil)
}

func (s *Server) getRollout(ctx context.Context, in *DocumentName) (*answer[api.RolloutStatus], error) {
	d, err := s.options.Policies.Document(ctx, in.Name)
	switch {
	case err != nil:
		return nil, err
	case d.Rollout == nil:
		return nil, fmt.Errorf("a rollout of %q: %w", in.Name, policystore.ErrNotFound)
	}
	list, err := s.options.Policies.Evidence(ctx, d.Rollout.ID)
	if err != nil {
		return nil, err
	}
	out := api.RolloutStatus{Rollout: *d.Rollout, Evidence: make([]api.Evidence, len(list))}
	for i, e := range list {
		raw, err := json.Marshal(e.Counters)
		if err != nil {
			return nil, err
		}
		out.Evidence[i] = api.Evidence{Step: e.Step, Revision: e.Revision, Counters: raw}
	}
	switch d.Rollout.State {
	case policystore.Promoted, policystore.Reverted:
		out.Judgement = d.Rollout.Judgement // which ended it
	default:
		j, err := rollouts.Judge(ctx, s.options.Policies, &d, list)
		if err != nil {
			return nil, err
		}
		out.Judgement = &j
	}
	return answers(out, nil)
}

func (s *Server) changeRollout(ctx context.Context, in *rolloutAction) (*documentAnswer, error) {
	after := map[string]policystore.RolloutState{"pause": policystore.Paused, "resume": policystore.Running, "abort": policystore.Aborted}
	return s.changeDocument(ctx, in.Name, audit.Operation{Action: "rollouts." + in.Action, To: string(after[in.Action])}, func() (policystore.Document, error) {
		switch in.Action {
		case "pause":
			return s.documents.Pause(ctx, in.Name, in.Revision)
		case "resume":
			return s.documents.Resume(ctx, in.Name, in.Revision)
		}
		return s.documents.Abort(ctx, in.Name, callerOf(ctx).actor(), in.Revision)
	})
}

func (s *Server) changeDocument(ctx context.Context, name string, o audit.Operation, change func() (policystore.Document, error)) (*documentAnswer, error) {
	o, err := s.onDocument(ctx, name, o)
	if err != nil {
		return nil, err
	}
	if err := s.record(ctx, o); err != nil {
		return nil, err
	}
	d, err := change()
	if err != nil {
		return nil, s.refused(ctx, o, err)
	}
	return &documentAnswer{revisionTag(d.Current), d}, nil
}

// document describes the errors of documents, and reports whether it is one.
func (p *problem) document(err error) bool {
	invalid, isInvalid := errors.AsType[*documents.InvalidError](err)
	warnings, isWarnings := errors.AsType[*documents.WarningsError](err)
	_, isFrozen := errors.AsType[*documents.FrozenError](err)
	_, isConflict := errors.AsType[*documents.ConflictError](err)
	switch {
	case isConflict:
		p.Status, p.Remedy = http.StatusPreconditionFailed, "look at what changed, then publish again"
	case isInvalid:
		p.Status, p.Remedy = http.StatusUnprocessableEntity, "correct the faults"
		if p.Errors = lists.Map(invalid.Faults, api.NewFault); len(p.Errors) > 0 {
			p.Detail = "the document is not valid"
		}
	case isWarnings:
		p.Status, p.Remedy, p.Errors = http.StatusUnprocessableEntity, "correct them, or send accept_warnings", lists.Map(warnings.Warnings, api.NewFault)
	case isFrozen:
		p.Status, p.Remedy = http.StatusConflict, "unfreeze the document, or wait for the one who froze it"
	case errors.Is(err, documents.ErrRunning), errors.Is(err, documents.ErrNotRunning):
		p.Status, p.Remedy = http.StatusConflict, "look at the rollout: tenet policy rollout show NAME"
	case errors.Is(err, documents.ErrFirst):
		p.Status, p.Remedy = http.StatusConflict, "publish it for all, without --rollout and --trial"
	case errors.Is(err, documents.ErrBusy):
		p.Status, p.Remedy, p.retryAfter = http.StatusServiceUnavailable, "ask again", awayTime
	case errors.Is(err, documents.ErrOther):
		p.Status, p.Remedy = http.StatusConflict, "look at the document, and decide anew"
	case errors.Is(err, documents.ErrNoTrial):
		p.Status, p.Remedy = http.StatusConflict, "publish a revision with trial: true, or tenet policy publish --trial"
	default:
		return false
	}
	return true
}
