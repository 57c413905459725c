package server

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// maxLines bounds the lines of one answer, and the lines that are looked at for it.
const (
	maxLines  = 10_000
	maxLooked = 100_000
)

func (s *Server) auditRoutes() {
	audits := group{tag: "Audit", scope: policystore.ScopeRead, unbound: true}
	read := audits.route(http.MethodGet, "/v1/audit/events", "read-audit", "Read the audit log as JSON lines")
	read.Description = "Each line is {cursor, event}, in stored order, or backwards; a line that is not JSON is in raw, in base64. The answer ends after limit lines, or earlier; continue after the last cursor, or before it, until an answer is empty. A line with a cursor and nothing else says how far a filtered answer, or one that a failure of the store has ended, has looked."
	read.Parameters = []*huma.Param{
		queryParameter("after", "The cursor of a line: only lines after it. Not with order=newest.", &huma.Schema{Type: huma.TypeString}),
		queryParameter("order", "newest reads from the end to the beginning; SQLite and PostgreSQL can. Policy snapshots, policy changes and operators' actions, and the events of one work_id, are then found through indexes.", &huma.Schema{Type: huma.TypeString, Enum: []any{"oldest", "newest"}, Default: "oldest"}),
		queryParameter("before", "The cursor of a line: only lines before it. With order=newest.", &huma.Schema{Type: huma.TypeString}),
		queryParameter("limit", "How many lines at most.", &huma.Schema{Type: huma.TypeInteger, Minimum: new(float64(1)), Maximum: new(float64(maxLines)), Default: 1000}),
		queryParameter("type", "Only events of this type.", &huma.Schema{Type: huma.TypeString}),
		queryParameter("work_id", "Only events of this call, job or transaction.", &huma.Schema{Type: huma.TypeString}),
		queryParameter("actor", "Only events of this operator, worker or process, such as token:ops.", &huma.Schema{Type: huma.TypeString}),
		queryParameter("action", "Only events with this action, such as queues.pause.", &huma.Schema{Type: huma.TypeString}),
	}
	s.raw(read, "application/jsonl", s.readAudit)
	register(s, audits.route(http.MethodGet, "/v1/audit/heads", "audit-heads", "List the ends of the chains of the audit log"), func(ctx context.Context, _ *struct{}) (*answer[api.Heads], error) {
		list, err := s.options.Audit.Heads(ctx)
		return answers(api.Heads{Heads: orEmpty(list)}, err)
	})
	s.auditRunRoutes()
}

func queryParameter(name, text string, schema *huma.Schema) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: text, Schema: schema}
}

var errEnough = errors.New("enough lines")

// readAudit streams lines. After the first one the status is sent: a failure then ends the answer early, with a line that only has a
// cursor, and the reader goes on after it.
func (s *Server) readAudit(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if query.Get("limit") == "" {
		limit, err = 1000, nil
	}
	if err != nil || limit < 1 || limit > maxLines {
		err = fmt.Errorf("%w: limit: write a number from 1 to %d", errInvalid, maxLines)
	}
	after, before, newest := query.Get("after"), query.Get("before"), query.Get("order") == "newest"
	if err == nil && (newest && after != "" || !newest && before != "") {
		err = fmt.Errorf("%w: after goes with order=oldest, and before with order=newest", errInvalid)
	}
	finder, ok := s.options.Audit.(audit.Finder)
	if err == nil && newest && !ok {
		err = refusal(http.StatusNotFound, "this log cannot be read backwards", "read it with order=oldest")
	}
	if err := cmp.Or(err, checkPosition("after", after), checkPosition("before", before)); err != nil {
		s.problemOf(r.Context(), err).write(w)
		return
	}
	lines := auditWriter{
		out: bufio.NewWriterSize(w, 64<<10), limit: limit, kind: query.Get("type"), work: query.Get("work_id"), actor: query.Get("actor"), action: query.Get("action"),
	}
	w.Header().Set("Content-Type", "application/jsonl")
	if newest {
		q := audit.Query{WorkID: lines.work, Before: before}
		if kind := audit.Type(lines.kind); audit.Indexed(kind) {
			q.Type = kind
		}
		err = finder.Find(r.Context(), q, lines.add)
	} else {
		err = s.options.Audit.Read(r.Context(), after, lines.add)
	}
	if err != nil && !errors.Is(err, errEnough) {
		if lines.written == 0 && lines.out.Buffered() == 0 {
			s.problemOf(r.Context(), err).write(w)
			return
		}
		s.options.Logger.WarnContext(r.Context(), "reading the audit log failed in the middle of an answer", "error", err)
		_ = lines.write(lines.cursor, nil)
	}
	_ = lines.out.Flush()
}

// checkPosition refuses what is not the cursor of a line or event: stores number them. The name is that of the parameter or header.
func checkPosition(name, cursor string) error {
	if cursor == "" {
		return nil
	}
	if n, err := strconv.ParseInt(cursor, 10, 64); err != nil || n < 0 {
		return fmt.Errorf("%w: %s: not a cursor or ID of this list", errInvalid, name)
	}
	return nil
}

// auditWriter writes the lines of an audit log that are wanted.
type auditWriter struct {
	out                    *bufio.Writer
	limit, written, looked int
	cursor                 string // of the last line that was looked at
	kind, work             string
	actor, action          string
}

// filtered reports whether only some lines are wanted.
func (a *auditWriter) filtered() bool {
	return a.kind != "" || a.work != "" || a.actor != "" || a.action != ""
}

func (a *auditWriter) wants(e *audit.Event) bool {
	return (a.kind == "" || a.kind == string(e.Type)) && (a.work == "" || a.work == e.WorkID) &&
		(a.actor == "" || a.actor == e.Actor) && (a.action == "" || a.action == e.Action)
}

func (a *auditWriter) add(cursor string, line []byte) error {
	wanted := true
	if a.filtered() {
		e, err := audit.ParseLine(line)
		wanted = err == nil && a.wants(&e)
	}
	a.looked, a.cursor = a.looked+1, cursor
	if !wanted {
		if a.looked < maxLooked {
			return nil
		}
		line = nil
	}
	if err := a.write(cursor, line); err != nil {
		return err
	}
	if a.written == a.limit || a.looked >= maxLooked {
		return errEnough
	}
	return nil
}

// write writes an event as it is stored, byte by byte, so that its hash can be recomputed.
func (a *auditWriter) write(cursor string, line []byte) error {
	a.written++
	name, _ := json.Marshal(cursor) // a string
	_, _ = fmt.Fprintf(a.out, `{"cursor":%s`, name)
	switch {
	case line == nil:
	case json.Valid(line) && !bytes.ContainsAny(line, "\r\n"):
		_, _ = a.out.WriteString(`,"event":`)
		_, _ = a.out.Write(line)
	default:
		raw, _ := json.Marshal(line) // base64
		_, _ = fmt.Fprintf(a.out, `,"raw":%s`, raw)
	}
	_, err := a.out.WriteString("}\n")
	return err
}
