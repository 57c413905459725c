package server

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

func TestS5AFilterDoesNotTellWhetherAGuessOfAHiddenValueIsRight(t *testing.T) {
	e := newEnv(t, nil)
	e.enqueue(api.NewJobRequest{Type: "call", Queue: "out", Payload: []byte(`{"url":"https://me:s3cret@h/","headers":{"x_api_key":{"deep":"s3cret"}}}`)})
	filters := []string{"payload.headers.x_api_key.deep:s3cret", "payload.headers.X-API-KEY.deep:guess", `payload.url:"https://me:s3cret@h/"`}
	operator := e.secret
	e.secret = e.token(policystore.ScopeRead)
	if r := e.get("/v1/jobs"); strings.Contains(r.body, "s3cret") {
		t.Fatalf("shown: %s", r.body)
	}
	for _, f := range filters {
		search := api.JobFilter{Filter: f}
		for path, body := range map[string]any{
			"/v1/jobs/search": api.JobSearch{Filter: search, Limit: 1}, "/v1/jobs/find": api.JobFind{Filter: search, Limit: 1}, "/v1/jobs/count": api.JobCounting{Filter: search},
			"/v1/dlq/causes": api.CauseQuery{Filter: search, Limit: 1}, "/v1/redrives/preview": api.RedriveSelection{Filter: search},
		} {
			if r := e.do(call{method: http.MethodPost, path: path, body: body}); r.status != http.StatusForbidden {
				t.Errorf("%s with %s: %d %s", path, f, r.status, r.body)
			}
		}
		if r := e.do(call{method: http.MethodGet, path: "/v1/jobs?filter=" + url.QueryEscape(f), secret: operator}); r.status != http.StatusOK {
			t.Errorf("an operator with %s: %d %s", f, r.status, r.body)
		}
	}
}

func TestS5SecretsInOutputsAreHidden(t *testing.T) {
	e := newEnv(t, nil)
	ids := e.enqueue(api.NewJobRequest{Type: "call", Queue: "out", Payload: []byte(`{}`)})
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	w := job.NewWorker(e.db.Jobs(), job.WithQueues(map[string]int{"out": 1}), job.WithPoll(10*time.Millisecond))
	job.Handle(w, "call", func(_ context.Context, j job.Job[map[string]any]) error {
		return job.SetOutput(j, map[string]any{"status": 200, "headers": map[string]string{"Set-Cookie": "s3cret"}})
	})
	run, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(run) }()
	for {
		if r, _, err := e.db.Jobs().Get(ctx, ids[0]); err != nil || r.State == job.Completed {
			if err != nil || !strings.Contains(string(r.Output), "s3cret") {
				t.Fatalf("%+v, %v", r, err)
			}
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	end()
	<-ended
	reader := e.token(policystore.ScopeRead)
	for name, c := range map[string]call{
		"get": {method: http.MethodGet, path: "/v1/jobs/" + ids[0]}, "list": {method: http.MethodGet, path: "/v1/jobs"},
		"find": {method: http.MethodPost, path: "/v1/jobs/find", body: api.JobFind{Limit: 1}},
	} {
		c.secret = reader
		if r := e.do(c); r.status != http.StatusOK || !strings.Contains(r.body, `"output"`) || strings.Contains(r.body, "s3cret") {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := e.get("/v1/jobs/" + ids[0] + "?secrets=true"); !strings.Contains(r.body, "s3cret") {
		t.Errorf("an operator who asks: %s", r.body)
	}
}

func TestS6ARefusedCrossSiteRequestIsAProblem(t *testing.T) {
	e := newEnv(t, nil)
	r := e.do(call{method: http.MethodPost, path: "/v1/jobs", body: `{}`, header: map[string]string{"Origin": "https://evil.example", "Idempotency-Key": "k"}})
	if r.status != http.StatusForbidden || r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
}

func TestS5ABoundTokenDoesNotSeeTheEndsOfTheAuditLog(t *testing.T) {
	e := newEnv(t, nil)
	e.enqueue(api.NewJobRequest{Type: "b", Queue: "bills"})
	e.secret = e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"mail*"}})
	if r := e.get("/v1/audit/heads"); r.status != http.StatusForbidden {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestS5ABoundTokenDoesNotEndAPeriodicJobWhoseQueueOnlyWorkersKnow(t *testing.T) {
	e := newEnv(t, nil) // workers have "weekly" in the queue bills from their file
	admin := e.secret
	mailer := e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeOperate}, Queues: []string{"mail*"}})
	put := func(secret, name, body string, status int) {
		t.Helper()
		e.secret = secret
		if r := e.change(http.MethodPut, "/v1/settings/periodic/"+name, "key-"+name+body, body); r.status != status {
			t.Errorf("%s %s: %d %s", name, body, r.status, r.body)
		}
	}
	const deleted, reset = `{"value":{"deleted":true}}`, `{"value":null}`
	put(mailer, "weekly", deleted, 403)
	put(admin, "weekly", deleted, 200)
	put(mailer, "weekly", reset, 403) // which would bring it back
	put(mailer, "mails", `{"value":{"cron":"@daily","job":{"type":"t","queue":"mail"}}}`, 200)
	put(mailer, "mails", deleted, 200)
	put(mailer, "mails", reset, 200)
}
