package server

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/keyring"
)

type clientQuery struct {
	PageQuery
	Document string `query:"document" maxLength:"255" doc:"Only clients of this document."`
	Revision int64  `query:"revision" minimum:"0" doc:"Only clients that run this revision."`
	Label    string `query:"label" maxLength:"401" doc:"Only clients with this label, as name=value."`
	Refused  bool   `query:"refused" doc:"Only clients that could not use a revision."`
}

// selects reports whether a client is one of those that the query asks for, its document aside.
func (q *clientQuery) selects(c *policystore.Client) bool {
	name, want, _ := strings.Cut(q.Label, "=")
	value, labelled := c.Labels[name]
	return (q.Revision == 0 || c.Applied == q.Revision) && (q.Label == "" || labelled && value == want) && (!q.Refused || c.Refused != 0)
}

// maxClientsScanned bounds the clients that a page with filters looks at. A page can hold fewer clients than asked for, or none,
// and have a next page.
const maxClientsScanned = 20_000

// seenWithin is how recently a client that is counted was seen.
const seenWithin = 10 * time.Minute

// deliveryRoutes registers what client programs use, and what is known of them.
func (s *Server) deliveryRoutes() {
	read := group{tag: "Clients", scope: policystore.ScopeRead}
	reports := group{tag: "Clients", scope: policystore.ScopeReport}
	live := reports.route(http.MethodGet, documentPath+"/live", "follow-document", "Follow a document: a stream, a long poll or a conditional GET")
	live.Description = "The protocol of client programs, which docs/protocol.md describes."
	live.Parameters = []*huma.Param{{Name: "name", In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}}}
	live.stream, live.free = true, true
	revision := map[string]*huma.MediaType{protocol.TypeJSON: {}}
	same := &huma.Response{Description: "The client has it"}
	live.Responses = map[string]*huma.Response{
		"200": {Description: "The signed revision, or a stream of them", Content: map[string]*huma.MediaType{protocol.TypeJSON: {}, protocol.TypeStream: {}}},
		"304": same,
	}
	s.raw(live, "", s.follow)
	trial := reports.route(http.MethodGet, documentPath+"/trial/live", "follow-trial", "Get the signed revision under trial")
	trial.Description, trial.Parameters = live.Description, live.Parameters
	trial.Responses = map[string]*huma.Response{"200": {Description: "The signed revision", Content: revision}, "304": same}
	trial.free = true
	s.raw(trial, "", s.hub.ServeTrial)
	report := reports.route(http.MethodPost, documentPath+"/reports", "report", "Report the applied revision and counters of a client")
	report.Description, report.Parameters = live.Description, live.Parameters
	report.free = true
	report.Responses = map[string]*huma.Response{"204": {Description: "Taken"}}
	s.raw(report, "", s.hub.ServeReport)

	register(s, read.route(http.MethodGet, "/v1/clients", "list-clients", "List client programs"), s.listClients)
	register(s, read.route(http.MethodGet, documentPath+"/clients", "count-clients", "Count the clients of a document by revision, of the last 10 minutes"), s.countClients)
	mechanisms := read.route(http.MethodGet, "/v1/mechanisms", "list-mechanisms", "List breakers, budgets and limits of client programs")
	mechanisms.Description = "Those that have opened or refused an attempt since their client started, of clients seen within the last 10 minutes, as they last reported them."
	register(s, mechanisms, s.listMechanisms)
	pipelines := read.route(http.MethodGet, "/v1/pipelines", "list-pipelines", "List consumers and producers of client programs")
	pipelines.Description = "With their totals since their client started, of clients seen within the last 10 minutes, as they last reported them."
	register(s, pipelines, s.listPipelines)
	register(s, read.route(http.MethodGet, "/v1/signing-key", "get-signing-key", "Show the key that clients pin"), func(ctx context.Context, _ *struct{}) (*answer[api.SigningKey], error) {
		keys, err := keyring.Load(ctx, s.options.Policies)
		if err != nil {
			return nil, err
		}
		return answers(api.SigningKey{PublicKey: protocol.FormatKey(keys.Public())}, nil)
	})
	admin := group{tag: "Clients", scope: policystore.ScopeAdmin, once: keyed, unbound: true}
	register(s, admin.route(http.MethodPost, "/v1/signing-key/rotate", "rotate-signing-key", "Replace the signing key; the old one endorses the new one"), func(ctx context.Context, _ *struct{}) (*answer[api.SigningKey], error) {
		o := audit.Operation{Action: "signing-key.rotate"}
		keys, err := keyring.Rotate(ctx, s.options.Policies, func(from, to ed25519.PublicKey) error {
			o.From, o.To = protocol.FormatKey(from), protocol.FormatKey(to)
			return s.record(ctx, o)
		})
		if err != nil {
			return nil, s.refused(ctx, o, err)
		}
		_ = s.hub.Rekey(ctx) // who is given the new key can use it now; after a failure the hub does it later
		return answers(api.SigningKey{PublicKey: protocol.FormatKey(keys.Public())}, nil)
	})
}

// follow bounds how many programs follow documents.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	leave, err := enter(s.limits.followers)
	if err != nil {
		s.problemOf(r.Context(), err).write(w)
		return
	}
	defer leave()
	s.hub.ServeLive(w, r)
}

const clientCursor = "clients"

func (s *Server) listClients(ctx context.Context, in *clientQuery) (*answer[api.Clients], error) {
	var after policystore.ClientKey
	if err := in.Cursor.Position(clientCursor, &after); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if in.Document != "" {
		if err := callerOf(ctx).mayDocument(in.Document); err != nil {
			return nil, err
		}
	}
	page := api.Clients{Clients: []api.Client{}}
	for scanned := 0; scanned < maxClientsScanned; {
		list, err := s.options.Policies.Clients(ctx, in.Document, after, in.Limit)
		if err != nil {
			return nil, err
		}
		for i := range list {
			c := &list[i]
			after = c.Key()
			if !within(c.Document, callerOf(ctx).Documents) || !in.selects(c) {
				continue
			}
			if page.Clients = append(page.Clients, api.Client{Client: *c, StalenessSeconds: c.Staleness.Seconds()}); len(page.Clients) == in.Limit {
				page.Next = api.NewCursor(clientCursor, after)
				return answers(page, nil)
			}
		}
		if len(list) < in.Limit {
			return answers(page, nil)
		}
		scanned += len(list)
	}
	page.Next = api.NewCursor(clientCursor, after)
	return answers(page, nil)
}

func (s *Server) countClients(ctx context.Context, in *DocumentName) (*answer[api.ClientCounts], error) {
	list, err := s.options.Policies.CountClients(ctx, in.Name, time.Now().Add(-seenWithin))
	return answers(api.ClientCounts{Counts: orEmpty(list)}, err)
}
