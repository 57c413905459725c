package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// scopes is the authorisation table: an operation that is missing here fails the test.
var scopes = map[string]policystore.Scope{
	"livez": "", "readyz": "", "openapi": "", "login": "", "login-callback": "", "logout": "", "who-am-i": anyScope, "sign-in": "", "sign-in-methods": "",
	"metrics": policystore.ScopeRead, "events": policystore.ScopeRead, "read-audit": policystore.ScopeRead, "audit-heads": policystore.ScopeRead,
	"explain-job": policystore.ScopeRead, "list-rules": policystore.ScopeRead, "prove-revision": policystore.ScopeRead, "check-document": policystore.ScopeRead, "simulate-revision": policystore.ScopeRead, "list-jobs": policystore.ScopeRead, "search-jobs": policystore.ScopeRead, "find-jobs": policystore.ScopeRead, "count-jobs": policystore.ScopeRead, "get-job": policystore.ScopeRead,
	"stats": policystore.ScopeRead, "stats-history": policystore.ScopeRead, "list-workers": policystore.ScopeRead, "list-indexes": policystore.ScopeRead, "list-queues": policystore.ScopeRead, "list-limits": policystore.ScopeRead,
	"list-periodic": policystore.ScopeRead, "list-records": policystore.ScopeRead, "get-record": policystore.ScopeRead,
	"enqueue": policystore.ScopeOperate, "change-jobs": policystore.ScopeOperate, "requeue": policystore.ScopeOperate, "purge": policystore.ScopeOperate,
	"list-flows": policystore.ScopeRead, "get-flow": policystore.ScopeRead, "list-flow-nodes": policystore.ScopeRead, "list-related-jobs": policystore.ScopeRead,
	"enqueue-flow": policystore.ScopeOperate, "change-flow": policystore.ScopeOperate,
	"list-redrives": policystore.ScopeRead, "list-causes": policystore.ScopeRead, "get-redrive": policystore.ScopeRead, "preview-redrive": policystore.ScopeRead,
	"create-redrive": policystore.ScopeOperate, "change-redrive": policystore.ScopeOperate, "set-redrive-rate": policystore.ScopeOperate,
	"set-queue": policystore.ScopeOperate, "set-limit": policystore.ScopeOperate, "reset-limit": policystore.ScopeOperate, "run-periodic": policystore.ScopeOperate, "resolve-record": policystore.ScopeOperate,
	"clear-record": policystore.ScopeOperate, "expire-records": policystore.ScopeOperate,
	"list-tokens": policystore.ScopeAdmin, "create-token": policystore.ScopeAdmin, "revoke-token": policystore.ScopeAdmin,
	"rotate-signing-key": policystore.ScopeAdmin, "get-signing-key": policystore.ScopeRead,
	"list-documents": policystore.ScopeRead, "get-document": policystore.ScopeRead, "list-revisions": policystore.ScopeRead,
	"get-revision": policystore.ScopeRead, "diff-revisions": policystore.ScopeRead, "get-rollout": policystore.ScopeRead,
	"list-mechanisms": policystore.ScopeRead, "list-pipelines": policystore.ScopeRead, "verify-audit": policystore.ScopeRead, "replay-audit": policystore.ScopeRead,
	"job-events": policystore.ScopeRead, "list-settings": policystore.ScopeRead, "put-setting": policystore.ScopeOperate,
	"list-clients": policystore.ScopeRead, "count-clients": policystore.ScopeRead,
	"publish": policystore.ScopePublish, "rollback": policystore.ScopePublish, "change-rollout": policystore.ScopePublish,
	"get-trial": policystore.ScopeRead, "end-trial": policystore.ScopePublish, "follow-trial": policystore.ScopeReport,
	"freeze": policystore.ScopePublish, "unfreeze": policystore.ScopePublish,
	"follow-document": policystore.ScopeReport, "report": policystore.ScopeReport,
}

// pathOf is a path that an operation matches.
func pathOf(o *route) string {
	return strings.NewReplacer("{action}", "pause", "{id}", "x", "{relation}", "needs", "{name}", "x", "{queue}", "x", "{revision}", "1").Replace(o.Path)
}

func TestS5EveryOperationAsksForItsScope(t *testing.T) {
	e := newEnv(t, nil)
	without := map[policystore.Scope]string{}
	for _, missing := range policystore.Scopes() {
		others := slices.DeleteFunc(policystore.Scopes(), func(s policystore.Scope) bool { return s == missing || s == policystore.ScopeAdmin })
		without[missing] = e.token(others...)
	}
	for _, o := range e.server.mux.declared {
		want, listed := scopes[o.OperationID]
		if !listed || want != o.scope || o.public != (want == "") {
			t.Errorf("%s: scope %q, in the table %q (%t)", o.OperationID, o.scope, want, listed)
			continue
		}
		readsOnly := o.Method == http.MethodGet || slices.Contains([]string{"search-jobs", "find-jobs", "count-jobs", "check-document", "simulate-revision", "preview-redrive", "list-causes", "verify-audit", "replay-audit", "report", "logout", "sign-in"}, o.OperationID)
		if changes := o.once != reads; changes == readsOnly {
			t.Errorf("%s changes something: %t", o.OperationID, changes)
		}
		if o.public {
			continue
		}
		c := call{method: o.Method, path: pathOf(o), header: map[string]string{"Idempotency-Key": "k", "If-Match": "*"}, secret: "-"}
		if r := e.do(c); r.status != 401 || r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s without a token: %d", o.OperationID, r.status)
		}
		if want == anyScope {
			continue
		}
		c.secret = without[want]
		if r := e.do(c); r.status != 403 || !strings.Contains(r.body, "scope "+string(want)) {
			t.Errorf("%s without its scope: %d %s", o.OperationID, r.status, r.body)
		}
	}
}

func TestS5AServerWithoutTokensAnswersThisMachineOnly(t *testing.T) {
	e := newEnv(t, func(o *Options) { o.Policies = &noTokens{o.Policies} })
	const here = "127.0.0.1:9"
	for _, c := range []struct {
		host, from string
		want       int
	}{
		{"localhost:7480", here, 200}, {"127.0.0.1", here, 200}, {"[::1]:80", "[::1]:9", 200}, {"localhost", "@", 200}, {"evil.example.com", here, 403},
		{"localhost", "192.0.2.1:9", 403}, {"localhost", "[fe80::1%eth0]:9", 403}, // a program has mounted the handler where others reach it
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/stats", http.NoBody)
		r.Host, r.RemoteAddr = c.host, c.from
		w := httptest.NewRecorder()
		e.server.Handler().ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s from %s: %d, want %d", c.host, c.from, w.Code, c.want)
		}
	}
	if err := e.server.checkAddress(t.Context(), fakeAddress("192.0.2.1:80")); err == nil {
		t.Error("it listens on an address that others reach")
	}
	if err := newEnv(t, nil).server.checkAddress(t.Context(), fakeAddress("192.0.2.1:80")); err != nil {
		t.Errorf("with a token: %v", err)
	}
}

type fakeAddress string

func (fakeAddress) Network() string  { return "tcp" }
func (a fakeAddress) String() string { return string(a) }

// noTokens is a policy store without tokens.
type noTokens struct{ policystore.Store }

func (n *noTokens) Tokens(context.Context, string, int) ([]policystore.Token, error) { return nil, nil }

func TestS5AMutationFromAnotherOriginIsRefused(t *testing.T) {
	e := newEnv(t, nil)
	c := call{method: http.MethodPost, path: "/v1/jobs", body: api.Enqueue{Jobs: []api.NewJobRequest{{Type: "t"}}}, header: map[string]string{
		"Idempotency-Key": "k", "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.com",
	}}
	if r := e.do(c); r.status != 403 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestS5TokensAreShownOnceRevokedAndNeverLogged(t *testing.T) {
	e := newEnv(t, nil)
	var made api.CreatedToken
	c := call{method: http.MethodPost, path: "/v1/tokens", body: api.NewToken{Name: "n", Scopes: []policystore.Scope{policystore.ScopeRead}}}
	e.do(c).into(t, &made)
	if r := e.do(call{method: http.MethodGet, path: "/v1/stats", secret: made.Secret}); r.status != 200 {
		t.Errorf("a new token: %d %s", r.status, r.body)
	}
	if r := e.do(c); r.status != 409 || strings.Contains(r.body, "tenet_") {
		t.Errorf("a second time: %d %s", r.status, r.body)
	}
	if r := e.get("/v1/audit/events?action=tokens.create"); strings.Count(r.body, `"detail":"refused: a token of this name exists"`) != 1 {
		t.Errorf("the log does not tell the second from the first: %s", r.body)
	}
	if r := e.get("/v1/tokens"); !strings.Contains(r.body, made.ID) || strings.Contains(r.body, made.Secret) || strings.Contains(r.body, made.Hash+"x") {
		t.Errorf("listed: %s", r.body)
	}
	if r := e.change(http.MethodDelete, "/v1/tokens/"+made.ID, "r", nil); r.status != 204 {
		t.Errorf("revoke: %d %s", r.status, r.body)
	}
	if r := e.do(call{method: http.MethodGet, path: "/v1/stats", secret: made.Secret}); r.status != 401 {
		t.Errorf("a revoked token: %d", r.status)
	}
	if log := e.get("/v1/audit/events"); !strings.Contains(log.body, `"action":"tokens.create"`) || strings.Contains(log.body+e.log.String(), made.Secret) || strings.Contains(e.log.String(), e.secret) {
		t.Error("the secret is in a log, or the making of the token is not")
	}
}
