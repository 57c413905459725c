package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

const (
	reportingTime = 2 * time.Second // how long what clients reported is used again
	maxReporting  = 20_000          // clients that are looked at
	reportingPage = 1000
	maxTotals     = 1000
)

// readReporting reads the clients that reported something of their parts, at most maxReporting.
func readReporting(ctx context.Context, store policystore.Clients) (list []policystore.Client, err error) {
	since := time.Now().Add(-seenWithin)
	page := func(after policystore.ClientKey, limit int) ([]policystore.Client, error) {
		return store.ReportingClients(ctx, since, after, limit)
	}
	for c, err := range paging.All(policystore.ClientKey{}, reportingPage, page, func(c policystore.Client) policystore.ClientKey { return c.Key() }) {
		if err != nil {
			return nil, err
		}
		if list = append(list, c); len(list) == maxReporting {
			break
		}
	}
	for i := range list {
		slices.SortFunc(list[i].Reported.Mechanisms, func(a, b policystore.Mechanism) int {
			return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
		})
		slices.SortFunc(list[i].Reported.Pipelines, func(a, b policystore.Pipeline) int {
			return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
		})
	}
	return list, nil
}

// PartQuery selects parts of clients. It is exported because inputs embed it, as PageQuery is.
type PartQuery struct {
	PageQuery
	Document string `query:"document" maxLength:"255" doc:"Only clients of this document."`
	Client   string `query:"client" maxLength:"200" doc:"Only this client."`
}

// partPlace is a place in a list of parts.
type partPlace struct{ Document, Client, Kind, Name string }

func (p partPlace) compare(q partPlace) int {
	return cmp.Or(strings.Compare(p.Document, q.Document), strings.Compare(p.Client, q.Client), strings.Compare(p.Kind, q.Kind), strings.Compare(p.Name, q.Name))
}

// reportingClients returns the clients of the caller's documents that a query may select, and where its page begins.
func (s *Server) reportingClients(ctx context.Context, in *PartQuery, list string) (clients []policystore.Client, after partPlace, partial bool, err error) {
	if err := in.Cursor.Position(list, &after); err != nil {
		return nil, after, false, fmt.Errorf("%w: %w", errInvalid, err)
	}
	if in.Document != "" {
		if err := callerOf(ctx).mayDocument(in.Document); err != nil {
			return nil, after, false, err
		}
	}
	all, _, err := s.reporting.get(ctx)
	for i := range all {
		if c := &all[i]; within(c.Document, callerOf(ctx).Documents) && (in.Document == "" || c.Document == in.Document) {
			clients = append(clients, *c)
		}
	}
	return clients, after, len(all) >= maxReporting, err
}

type mechanismQuery struct {
	PartQuery
	Kind  string `query:"kind" enum:"breaker,budget,limit"`
	Name  string `query:"name" maxLength:"512" doc:"Only this key of a breaker or limit, or budget of this name."`
	State string `query:"state" enum:"open,half_open,closed,exhausted,available"`
}

const mechanismCursor = "mechanisms"

func (s *Server) listMechanisms(ctx context.Context, in *mechanismQuery) (*answer[api.Mechanisms], error) {
	clients, after, partial, err := s.reportingClients(ctx, &in.PartQuery, mechanismCursor)
	if err != nil {
		return nil, err
	}
	page := api.Mechanisms{Mechanisms: []api.Mechanism{}, Partial: partial}
	totals := map[partPlace]*api.MechanismTotal{}
	for i := range clients {
		c := &clients[i]
		for _, m := range c.Reported.Mechanisms {
			if in.Kind != "" && m.Kind != in.Kind || in.Name != "" && m.Name != in.Name {
				continue
			}
			addMechanism(totals, c.Document, &m)
			place := partPlace{c.Document, c.ID, m.Kind, m.Name}
			if in.Client != "" && c.ID != in.Client || in.State != "" && m.State != in.State || place.compare(after) <= 0 || page.Next != "" {
				continue
			}
			if page.Mechanisms = append(page.Mechanisms, api.Mechanism{Document: c.Document, Client: c.ID, Mechanism: m}); len(page.Mechanisms) == in.Limit {
				page.Next = api.NewCursor(mechanismCursor, place)
			}
		}
	}
	if in.Cursor == "" {
		page.Totals = worstFirst(totals)
	}
	return answers(page, nil)
}

type pipelineQuery struct {
	PartQuery
	Kind string `query:"kind" enum:"consumer,producer"`
	Name string `query:"name" maxLength:"512" doc:"Only consumers and producers of this name."`
}

const pipelineCursor = "pipelines"

func (s *Server) listPipelines(ctx context.Context, in *pipelineQuery) (*answer[api.Pipelines], error) {
	clients, after, partial, err := s.reportingClients(ctx, &in.PartQuery, pipelineCursor)
	if err != nil {
		return nil, err
	}
	page := api.Pipelines{Pipelines: []api.Pipeline{}, Partial: partial}
	for i := range clients {
		c := &clients[i]
		for _, p := range c.Reported.Pipelines {
			place := partPlace{c.Document, c.ID, p.Kind, p.Name}
			if in.Client != "" && c.ID != in.Client || in.Kind != "" && p.Kind != in.Kind || in.Name != "" && p.Name != in.Name || place.compare(after) <= 0 {
				continue
			}
			if page.Pipelines = append(page.Pipelines, api.Pipeline{Document: c.Document, Client: c.ID, LastSeen: c.LastSeen, Pipeline: p}); len(page.Pipelines) == in.Limit {
				page.Next = api.NewCursor(pipelineCursor, place)
				return answers(page, nil)
			}
		}
	}
	return answers(page, nil)
}

func addMechanism(totals map[partPlace]*api.MechanismTotal, document string, m *policystore.Mechanism) {
	key := partPlace{Document: document, Kind: m.Kind, Name: m.Name}
	t := totals[key]
	if t == nil {
		t = &api.MechanismTotal{Document: document, Kind: m.Kind, Name: m.Name}
		totals[key] = t
	}
	t.Clients++
	t.Openings += m.Openings
	t.Refusals += m.Refusals
	switch m.State {
	case "open":
		t.Open++
	case "exhausted":
		t.Exhausted++
	case "half_open":
		t.HalfOpen++
		return
	default:
		return
	}
	if t.Since.IsZero() || m.Since.Before(t.Since) {
		t.Since = m.Since
	}
}

func worstFirst(totals map[partPlace]*api.MechanismTotal) []api.MechanismTotal {
	list := make([]api.MechanismTotal, 0, len(totals))
	for _, t := range totals {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b api.MechanismTotal) int {
		return cmp.Or(cmp.Compare(b.Open+b.Exhausted, a.Open+a.Exhausted), cmp.Compare(b.Refusals, a.Refusals),
			strings.Compare(a.Document, b.Document), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), maxTotals)]
}
