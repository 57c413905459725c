package server

import (
	"bytes"
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

// TestS9APageOfJobsIsBoundedInBytes: a page of large payloads ends early, and says where the next one begins.
func TestS9APageOfJobsIsBoundedInBytes(t *testing.T) {
	e := newEnv(t, nil)
	const jobs = pagePart + 10
	list := make([]job.Request, jobs)
	for i := range list { // not JSON, which is slow to read
		list[i] = job.Request{Type: "big", Queue: "big", Payload: bytes.Repeat([]byte{'x'}, pageBytes/pagePart+1)}
	}
	if _, err := job.NewClient(e.db.Jobs()).EnqueueMany(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	page := post[api.JobPage](e, "/v1/jobs/search", api.JobSearch{Secrets: true, Limit: 1000})
	if len(page.Jobs) != pagePart || page.Next == "" {
		t.Errorf("a page has %d jobs, and its next is %q", len(page.Jobs), page.Next)
	}
	if page = post[api.JobPage](e, "/v1/jobs/search", api.JobSearch{Secrets: true, Limit: 1000, Cursor: page.Next}); len(page.Jobs) != 10 || page.Next != "" {
		t.Errorf("the second page has %d jobs, and its next is %q", len(page.Jobs), page.Next)
	}
	found := post[api.JobFound](e, "/v1/jobs/find", api.JobFind{Secrets: true, Limit: 1000})
	if len(found.Jobs) != pagePart || found.Next == "" {
		t.Errorf("%d jobs are found, and the next is %q", len(found.Jobs), found.Next)
	}
	if found = post[api.JobFound](e, "/v1/jobs/find", api.JobFind{Secrets: true, Limit: 1000, Below: found.Next}); len(found.Jobs) != 10 {
		t.Errorf("%d jobs are found then", len(found.Jobs))
	}
	// What a change keeps is small.
	var changed api.Changed
	if e.change(http.MethodPost, "/v1/jobs/actions/cancel", "k", api.JobChange{Filter: api.JobFilter{Queue: "big"}}).into(t, &changed); len(changed.IDs) != jobs {
		t.Errorf("%d jobs are changed", len(changed.IDs))
	}
}

// TestS6TextsThatNoStoreKeepsAreRefused: wherever they are in a request, and whatever the store.
func TestS6TextsThatNoStoreKeepsAreRefused(t *testing.T) {
	e := newEnv(t, nil)
	refused := func(r reply, path string) {
		t.Helper()
		var p api.Problem
		if r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", path, r.status, r.body)
			return
		}
		if r.into(t, &p); len(p.Errors) != 1 || p.Errors[0].Path != path {
			t.Errorf("%s: %+v", path, p)
		}
	}
	refused(e.change(http.MethodPut, "/v1/queues/%00", "a", api.QueueSwitch{Paused: true}), "path.queue")
	refused(e.change(http.MethodPut, "/v1/queues/%ff", "b", api.QueueSwitch{Paused: true}), "path.queue")
	refused(e.get("/v1/flows/%00"), "path.id")
	refused(e.do(call{method: http.MethodPost, path: "/v1/jobs/search", body: `{"filter":{"type":"a\u0000"}}`}), "body.filter.type")
	refused(e.do(call{method: http.MethodPost, path: "/v1/tokens", body: `{"name":"x","scopes":["read"],"queues":["a","\u0000"]}`}), "body.queues[1]")
	for _, in := range []struct{ path, body string }{
		{"/v1/jobs/find", `{"below":"zz"}`}, {"/v1/jobs/search", `{"cursor":"` + string(api.NewCursor(api.JobCursor, "zz")) + `"}`},
		{"/v1/tokens", `{"name":"x","scopes":["read"],"queues":[""]}`}, {"/v1/tokens", `{"name":"x","scopes":["read"],"documents":["a\nb"]}`},
	} {
		if r := e.do(call{method: http.MethodPost, path: in.path, body: in.body}); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s %s: %d %s", in.path, in.body, r.status, r.body)
		}
	}
	for _, cursor := range []api.Cursor{api.NewCursor(api.RedriveCursor, "zz"), api.NewCursor(api.RedriveCursor, "\x00")} {
		if r := e.get("/v1/redrives?cursor=" + string(cursor)); r.status != http.StatusUnprocessableEntity {
			t.Errorf("the cursor %s: %d %s", cursor, r.status, r.body)
		}
	}
	if r := e.change(http.MethodPut, "/v1/queues/mail", "c", api.QueueSwitch{Paused: true, Until: time.Now().Add(-time.Hour)}); r.status != http.StatusUnprocessableEntity {
		t.Errorf("a pause that has ended: %d %s", r.status, r.body)
	}
}

// TestS5ABoundOfAllIsNone: the bound * is met by every queue.
func TestS5ABoundOfAllIsNone(t *testing.T) {
	e := newEnv(t, nil)
	e.enqueue(api.NewJobRequest{Type: "a", Queue: "mail"})
	e.secret = e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"*"}})
	var page api.JobPage
	if e.get("/v1/jobs").into(t, &page); len(page.Jobs) != 1 {
		t.Errorf("%+v", page)
	}
}

// TestS5CountersOfAStreamAreThoseOfTheCaller: two callers with other bounds share none, whatever the names in them.
func TestS5CountersOfAStreamAreThoseOfTheCaller(t *testing.T) {
	e := newEnv(t, nil)
	e.enqueue(api.NewJobRequest{Type: "x", Queue: "a"}, api.NewJobRequest{Type: "x", Queue: "b"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, bounds := range [][]string{nil, {""}, {"a", "b"}, {"a\nb"}} { // the second and the last are not made any more
		e.secret = e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: bounds})
		if got := next(t, e.events(ctx, "?topics=stats", ""), "stats"); strings.Contains(got[2], `"a"`) != (i%2 == 0) {
			t.Errorf("a token bound to %q gets %s", bounds, got[2])
		}
	}
}

// TestS5ABoundTokenSeesNoOtherQueuesOfAWorker: a worker may serve several.
func TestS5ABoundTokenSeesNoOtherQueuesOfAWorker(t *testing.T) {
	e := newEnv(t, nil)
	if err := e.db.Jobs().Announce(t.Context(), job.WorkerInfo{Name: "w", Queues: []string{"mine", "theirs"}, Types: []string{"a"}}, time.Hour); err != nil {
		t.Fatal(err)
	}
	e.secret = e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"mine"}})
	if body := e.get("/v1/workers").body; !strings.Contains(body, `["mine"]`) || strings.Contains(body, "theirs") {
		t.Error(body)
	}
}

// TestA6ReadersSeeNoSecretOfAFilterOrKey: an operator selects by a secret, and limits jobs by one.
func TestA6ReadersSeeNoSecretOfAFilterOrKey(t *testing.T) {
	e := newEnv(t, nil)
	if r := e.change(http.MethodPut, "/v1/limits/per-key?queue=out", "l", api.LimitSetting{Values: &api.LimitValues{Key: []string{"meta.X-Api-Key"}, Concurrency: 1}}); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	list := make([]job.Request, 2)
	for i := range list {
		list[i] = job.Request{
			Type: "http", Queue: "out", Payload: []byte(`{"headers":{"Authorization":"Bearer-hunter2"}}`), Meta: map[string]string{"X-Api-Key": "hunter3"},
		}
	}
	if _, err := job.NewClient(e.db.Jobs()).EnqueueMany(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	reader := e.token(policystore.ScopeRead)
	shows := func(path, want string) {
		t.Helper()
		r := e.do(call{method: http.MethodGet, path: path, secret: reader})
		if strings.Contains(r.body, "hunter") || !strings.Contains(r.body, want) {
			t.Errorf("GET %s shows a reader %s", path, r.body)
		}
	}
	if n := e.settle("out", job.KindDead); n != 1 {
		t.Fatalf("%d jobs ran", n)
	}
	_, _ = e.db.Jobs().Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: "out", Free: 1}}, Lease: time.Hour})
	shows("/v1/limits", "meta.X-Api-Key:")
	filter := `payload.headers.Authorization:Bearer-hunter2 meta.X-Api-Key:hunter3`
	if r := e.change(http.MethodPost, "/v1/redrives", "k", api.NewRedrive{RedriveSelection: api.RedriveSelection{Filter: api.JobFilter{Filter: filter}}}); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if r := e.do(call{method: http.MethodGet, path: "/v1/jobs?filter=" + url.QueryEscape(filter), secret: reader}); r.status != http.StatusForbidden {
		t.Errorf("a reader filters by a secret: %d %s", r.status, r.body)
	}
	shows("/v1/jobs", `"X-Api-Key":"[redacted]"`)
	shows("/v1/redrives", "[redacted]")
	shows("/v1/audit/events", "[redacted]")
}

// TestS6TheRevocationOfATokenSaysWhichOne: by its name and scopes, not only by its ID.
func TestS6TheRevocationOfATokenSaysWhichOne(t *testing.T) {
	e := newEnv(t, nil)
	var made api.CreatedToken
	e.do(call{method: http.MethodPost, path: "/v1/tokens", body: api.NewToken{Name: "deploy", Scopes: []policystore.Scope{policystore.ScopePublish}}}).into(t, &made)
	if r := e.change(http.MethodDelete, "/v1/tokens/"+made.ID, "k", nil); r.status != http.StatusNoContent {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if body := e.get("/v1/audit/events?action=tokens.revoke").body; !strings.Contains(body, `"name":"deploy"`) || !strings.Contains(body, `"scopes":"publish"`) {
		t.Error(body)
	}
	if r := e.change(http.MethodDelete, "/v1/tokens/none", "l", nil); r.status != http.StatusNotFound {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestS5TheCookieOfASignInFitsABrowser: browsers keep cookies of up to 4,096 bytes.
func TestS5TheCookieOfASignInFitsABrowser(t *testing.T) {
	e := newEnv(t, nil)
	l := login{
		State: strings.Repeat("s", 26), Nonce: strings.Repeat("n", 26), Verifier: strings.Repeat("v", 43), Expires: time.Now(),
		Return: "/" + strings.Repeat("a", longestReturn-1),
	}
	c, err := e.server.identity.cookies.seal(t.Context(), loginCookie, l, loginTime)
	if err != nil || len(c.Name)+len(c.Value) > 4096 {
		t.Errorf("%d bytes, error %v", len(c.Name)+len(c.Value), err)
	}
}

// TestS2ACheckIsAboutTheText: the revision in force may be one that this release refuses.
func TestS2ACheckIsAboutTheText(t *testing.T) {
	e := newEnv(t, nil)
	old := policystore.Revision{Document: "shop", Number: 1, Hash: "x", Body: []byte("version: 1\nretired_field: 1\n"), Created: time.Now()}
	if _, err := e.options.Policies.Save(t.Context(), policystore.Document{Name: "shop", Current: 1, Newest: 1}, old); err != nil {
		t.Fatal(err)
	}
	r := e.do(call{method: http.MethodPost, path: "/v1/documents/shop/check", body: api.Check{Body: "version: 1\n"}})
	if r.status != http.StatusOK || !strings.Contains(r.body, "-retired_field: 1") {
		t.Errorf("%d %s", r.status, r.body)
	}
}
