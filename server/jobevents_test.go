package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
)

func TestJ24AStreamOfJobEventsGoesOnWhereItWasAndKeepsToTheCallersQueues(t *testing.T) {
	e := newEnv(t, nil)
	store := e.db.Jobs()
	publish := func(list ...job.Event) {
		t.Helper()
		if err := store.Publish(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	publish(job.Event{ID: "1", Queue: "mail", To: job.Running, Meta: map[string]string{"x-api-key": "hunter2"}}, job.Event{ID: "2", Queue: "other", To: job.Dead})
	all := e.stream(t.Context(), "/v1/jobs/events", "0")
	first := next(t, all, "job")
	if first[1] != "1" || !strings.Contains(first[2], `"id":"1"`) || strings.Contains(first[2], "hunter2") {
		t.Error(first)
	}
	if second := next(t, all, "job"); second[1] != "2" {
		t.Error(second)
	}
	fresh := e.stream(t.Context(), "/v1/jobs/events", "")
	e.secret = e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"mail*"}})
	mine := e.stream(t.Context(), "/v1/jobs/events?filter=state:dead", "1")
	if place := next(t, fresh, ""); place[1] != "2" {
		t.Errorf("the stream does not say where it begins: %q", place)
	}
	publish(job.Event{ID: "3", Queue: "other", To: job.Dead}, job.Event{ID: "4", Queue: "mail", To: job.Dead})
	if got := next(t, mine, "job"); got[1] != "4" || strings.Contains(got[2], "lost") {
		t.Error(got)
	}
	if got := next(t, fresh, "job"); got[1] != "3" {
		t.Error(got)
	}
	for _, query := range []string{"?filter=payload.a:1", "?filter=nonsense:1"} {
		if r := e.do(call{method: http.MethodGet, path: "/v1/jobs/events" + query}); r.status != http.StatusUnprocessableEntity && r.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
}
