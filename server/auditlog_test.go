package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// auditLines returns the cursors and the IDs of work of an answer.
func (e *env) auditLines(query string) (cursors, works []string) {
	e.t.Helper()
	r := e.get("/v1/audit/events?" + query)
	if r.status != 200 {
		e.t.Fatalf("%s: %d %s", query, r.status, r.body)
	}
	for line := range strings.Lines(r.body) {
		var l struct {
			Cursor string
			Event  struct {
				WorkID string `json:"work_id"`
			}
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			e.t.Fatal(err)
		}
		cursors, works = append(cursors, l.Cursor), append(works, l.Event.WorkID)
	}
	return cursors, works
}

func TestU2TheAuditLogIsReadFromItsEnd(t *testing.T) {
	e := newEnv(t, nil)
	for i := range 30 {
		event := audit.Event{Type: audit.JobTransition, Surface: "job", WorkID: fmt.Sprint("w", i%3), From: "ready", To: "running"}
		if err := e.options.Log.Record(t.Context(), event); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			if err := e.options.Log.OperatorAction(t.Context(), audit.Operation{Action: "test", Actor: "x", WorkID: "operated"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	cursors, works := e.auditLines("order=newest&limit=3")
	if fmt.Sprint(works) != "[w2 w1 w0]" {
		t.Errorf("the newest: %v", works)
	}
	if _, works := e.auditLines("order=newest&limit=2&before=" + cursors[2]); fmt.Sprint(works) != "[w2 w1]" {
		t.Errorf("those before: %v", works)
	}
	if _, works := e.auditLines("order=newest&type=operator_action"); fmt.Sprint(works) != "[operated operated operated]" {
		t.Errorf("operators' actions: %v", works)
	}
	if _, works := e.auditLines("order=newest&work_id=w1&type=job_transition"); len(works) != 10 {
		t.Errorf("of one piece of work: %v", works)
	}
	for query, want := range map[string]int{"actor=x": 3, "actor=x&order=newest": 3, "action=test": 3, "actor=y": 0, "action=other&order=newest&type=operator_action": 0} {
		if _, works := e.auditLines(query); len(works) != want {
			t.Errorf("%s: %v", query, works)
		}
	}
	for _, query := range []string{"order=newest&after=1", "before=1", "order=newest&before=x"} {
		if r := e.get("/v1/audit/events?" + query); r.status != 422 {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
}

// breaking is an audit log that fails after a line.
type breaking struct{ AuditStore }

func (b breaking) Find(ctx context.Context, q audit.Query, f func(string, []byte) error) error {
	seen := false
	return b.AuditStore.(audit.Finder).Find(ctx, q, func(cursor string, line []byte) error {
		if seen {
			return errors.New("the store is away")
		}
		seen = true
		return f(cursor, line)
	})
}

func TestU2AnAnswerThatBreaksOffIsNotTheBeginningOfTheLog(t *testing.T) {
	e := newEnv(t, func(o *Options) { o.Audit = breaking{o.Audit} })
	for i := range 3 {
		if err := e.options.Log.Record(t.Context(), audit.Event{Type: audit.JobTransition, Surface: "job", WorkID: fmt.Sprint("w", i), From: "ready", To: "running"}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(client.Options{URL: e.url, Token: e.secret})
	if err != nil {
		t.Fatal(err)
	}
	var seen int
	for before := ""; ; {
		list, next, err := c.Audit().Newest(t.Context(), client.AuditQuery{Type: audit.JobTransition, Before: before, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		if seen += len(list); next == "" {
			break
		}
		before = next
	}
	if seen != 3 {
		t.Errorf("%d of 3 events", seen)
	}
	want, _ := audit.Tail(t.Context(), e.options.Audit)
	if tail, err := c.Audit().Tail(t.Context()); err != nil || tail != want {
		t.Errorf("the last line is %q, not %q: %v", want, tail, err)
	}
}

// TestA2TheServersOwnKeysAreOnRecord checks that each action under an Idempotency-Key is an event.
func TestA2TheServersOwnKeysAreOnRecord(t *testing.T) {
	e := newEnv(t, nil)
	for _, queue := range []string{"a", "a", "b"} {
		e.change(http.MethodPost, "/v1/jobs", "once", api.Enqueue{Jobs: []api.NewJobRequest{{Type: "t", Queue: queue}}})
	}
	var actions []string
	for line := range strings.Lines(e.get("/v1/audit/events?type=idempotency").body) {
		var l struct{ Event audit.Event }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Event.IdempotencyKey == "once" {
			actions = append(actions, l.Event.Action)
		}
	}
	if fmt.Sprint(actions) != "[record hit mismatch]" {
		t.Errorf("on record: %v", actions)
	}
}
