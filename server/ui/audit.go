package ui

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// auditPageSize is how many events a page lists.
const auditPageSize = 100

// auditSearch is what the pages of the audit log and of operators' actions show.
type auditSearch struct {
	Query   client.AuditQuery
	Types   []audit.Type
	Heads   []audit.Head // of the first page
	Events  []eventRow
	Older   string
	Command string
}

// eventRow is an event of the log. One that cannot be read has only a cursor.
type eventRow struct {
	audit.Event
	Cursor, Summary, Job string
	Unreadable           bool
}

func newEventRow(r *request, line api.AuditLine) eventRow {
	e, err := audit.ParseLine(line.Event)
	row := eventRow{Event: e, Cursor: line.Cursor, Unreadable: err != nil, Summary: summary(&e)}
	if e.Surface == "job" && e.WorkID != "" {
		row.Job = r.ui.href("jobs/" + e.WorkID)
	}
	return row
}

// summary says in a line what an event records.
func summary(e *audit.Event) string {
	attempt, change := "", e.From
	if e.Attempt > 0 {
		attempt = "attempt " + strconv.Itoa(e.Attempt)
	}
	if e.To != "" {
		change = strings.TrimSpace(change + " → " + e.To)
	}
	return joined(e.Action, attempt, change, e.Decision, string(e.Reason), e.Detail)
}

// readEvents reads a page of the log, the newest first. path is that of the page.
func readEvents(r *request, path string, q client.AuditQuery) (auditSearch, error) {
	q.Before, q.Limit = r.query.Get("before"), auditPageSize
	out := auditSearch{Query: q, Types: audit.Types()}
	lines, before, err := r.ui.client.Audit().Newest(r.context(), q)
	if err != nil {
		return out, err
	}
	out.Events = lists.Map(lines, func(line api.AuditLine) eventRow { return newEventRow(r, line) })
	if before != "" {
		out.Older = r.ui.href(path, "type", r.query.Get("type"), "work_id", q.WorkID, "actor", q.Actor, "action", q.Action, "before", before)
	}
	return out, nil
}

func auditPage() *page {
	return &page{path: "audit", nav: "Audit", title: "Audit", file: "audit", load: func(r *request) (any, error) {
		q := client.AuditQuery{Type: audit.Type(r.query.Get("type")), WorkID: r.query.Get("work_id"), Actor: r.query.Get("actor")}
		out, err := readEvents(r, "audit", q)
		if err != nil {
			return nil, err
		}
		parts := []string{"audit", "query"}
		if q.Type != "" {
			parts = append(parts, "--type", string(q.Type))
		}
		if q.WorkID != "" {
			parts = append(parts, "--work", q.WorkID)
		}
		if q.Actor == "" { // by which the command does not filter
			out.Command = commandLine(parts)
		}
		if r.query.Get("before") == "" {
			out.Heads, err = r.ui.client.Audit().Heads(r.context())
		}
		return out, err
	}}
}

func operatorsPage() *page {
	return &page{path: "operators", nav: "Operators' actions", title: "Operators' actions", file: "operators", load: func(r *request) (any, error) {
		out, err := readEvents(r, "operators", client.AuditQuery{Type: audit.OperatorAction, Actor: r.query.Get("actor"), Action: r.query.Get("action")})
		if q := out.Query; q.Actor == "" && q.Action == "" { // by which the command does not filter
			out.Command = commandLine([]string{"audit", "query", "--type", string(audit.OperatorAction)})
		}
		return out, err
	}}
}

// eventView is what the page of one event shows.
type eventView struct {
	eventRow
	Tree node
}

// Title names the page.
func (v eventView) Title() string { return "Event " + v.Cursor }

func eventPage() *page {
	return &page{path: "audit/{cursor}", nav: "Audit", file: "event", still: true, load: func(r *request) (any, error) {
		line, err := r.ui.client.Audit().At(r.context(), r.PathValue("cursor"))
		if err != nil {
			return nil, err
		}
		if line.Cursor == "" {
			return nil, &client.Problem{Status: http.StatusNotFound, Title: "Not found", Detail: "The log has no event at this place.", Remedy: "Choose one from the list"}
		}
		return eventView{newEventRow(r, line), tree(line.Event)}, nil
	}}
}
