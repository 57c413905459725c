package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// conforms checks an answer against the document.
func (e *env) conforms(d documented, c call, r reply) {
	e.t.Helper()
	if err := d.check(c.method, c.path, r); err != nil {
		e.t.Errorf("%s %s: %d %s\n%#v", c.method, c.path, r.status, r.body, err)
	}
}

// filled returns an env with jobs, a record and a document under rollout, the IDs of the jobs and the claim of the record.
func filled(t *testing.T) (e *env, ids []string, claim idempotency.Claim) {
	e = newEnv(t, func(o *Options) {
		o.Periodic = []job.Periodic{{Name: "nightly", Cron: "0 3 * * *", Request: job.Request{Type: "report"}}}
		o.Limits.Rate, o.Limits.Burst = 1e6, 1e6
	})
	ids = e.enqueue(api.NewJobRequest{Type: "mail", Queue: "out", Payload: []byte(`{"a":[1,null]}`), Meta: map[string]string{"tenant": "x"}},
		api.NewJobRequest{Type: "mail", PayloadBase64: []byte("not JSON")}, api.NewJobRequest{Type: "dead"})
	store := e.db.Jobs()
	claimed, err := store.Claim(t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: job.DefaultQueue, Free: 2}}, Lease: job.DefaultLease})
	if err != nil || len(claimed) != 2 {
		t.Fatal(claimed, err)
	}
	if errs := store.Settle(t.Context(), []job.Settlement{{Ref: claimed[1].Ref(), Kind: job.KindDead, Reason: "attempts_exhausted", Error: "no"}}); errs != nil {
		t.Fatal(errs)
	}
	begun, err := e.db.Idempotency().Begin(t.Context(), idempotency.BeginRequest{ID: idempotency.ID{Key: "k"}, Owner: "o", Lease: 1})
	if err != nil {
		t.Fatal(err)
	}
	e.do(call{method: http.MethodPost, path: "/v1/documents/pay/revisions", body: api.Publish{Body: fmt.Sprintf(documentText, 3)}, header: map[string]string{"If-Match": "*"}})
	e.do(call{method: http.MethodPost, path: "/v1/documents/pay/revisions", body: api.Publish{Body: fmt.Sprintf(documentText, 4), Rollout: &api.Plan{}}, header: map[string]string{"If-Match": "*"}})
	seen := policystore.Client{Document: "pay", ID: "web-1", LastSeen: time.Now(), Reported: &policystore.Reported{
		Mechanisms: []policystore.Mechanism{
			{Kind: "breaker", Name: "users.Get", State: "open", Since: time.Now(), Openings: 1, Refusals: 3}, {Kind: "budget", Name: "shared", State: "available", Since: time.Now()},
		},
		Pipelines: []policystore.Pipeline{{Kind: "consumer", Name: "orders", Begun: time.Now()}, {Kind: "producer", Name: "bills", Sink: "file", Begun: time.Now()}},
	}}
	if err := e.options.Policies.SaveClients(t.Context(), []policystore.Client{seen}); err != nil {
		t.Fatal(err)
	}
	return e, ids, begun.Record.Claim()
}

// TestS7EveryAnswerIsAsTheDocumentSays calls each operation so that it succeeds, and checks the answer against the OpenAPI
// document. It fails if an operation is missing here.
func TestS7EveryAnswerIsAsTheDocumentSays(t *testing.T) {
	e, ids, claim := filled(t)
	v := checker(t, e)
	tag := api.ClaimTag(claim)
	done := map[string]bool{"events": true, "job-events": true, "login": true, "login-callback": true, "follow-document": true, "follow-trial": true, "report": true} // other tests call these
	try := func(id, method, path string, status int, body any, match string) {
		t.Helper()
		c := call{method: method, path: path, body: body, header: map[string]string{"Idempotency-Key": "do-" + id + path, "If-Match": match}}
		r := e.do(c)
		if r.status != status {
			t.Errorf("%s: %d %s", id, r.status, r.body)
		}
		e.conforms(v, c, r)
		done[id] = true
	}
	get := func(id, path string) { t.Helper(); try(id, http.MethodGet, path, 200, nil, "") }
	for id, path := range map[string]string{
		"livez": "/livez", "readyz": "/readyz", "openapi": "/v1/openapi.json", "metrics": "/metrics", "who-am-i": "/v1/session", "sign-in-methods": "/v1/session/methods", "stats": "/v1/stats", "stats-history": "/v1/stats/history?queues=true",
		"list-jobs": "/v1/jobs", "list-workers": "/v1/workers", "list-indexes": "/v1/indexes", "list-queues": "/v1/queues", "list-settings": "/v1/settings", "list-periodic": "/v1/periodic",
		"list-records": "/v1/idempotency", "get-record": "/v1/idempotency/record?key=k", "audit-heads": "/v1/audit/heads", "read-audit": "/v1/audit/events",
		"list-tokens": "/v1/tokens", "list-documents": "/v1/documents", "get-document": "/v1/documents/pay", "list-revisions": "/v1/documents/pay/revisions",
		"get-revision": "/v1/documents/pay/revisions/1", "list-rules": "/v1/documents/pay/revisions/1/rules", "prove-revision": "/v1/documents/pay/revisions/1/proof", "diff-revisions": "/v1/documents/pay/diff?from=1&to=2", "get-rollout": "/v1/documents/pay/rollout",
		"list-clients": "/v1/clients", "list-mechanisms": "/v1/mechanisms?limit=1", "list-pipelines": "/v1/pipelines?limit=1", "count-clients": "/v1/documents/pay/clients", "get-signing-key": "/v1/signing-key",
	} {
		get(id, path)
	}
	for _, id := range ids {
		get("get-job", "/v1/jobs/"+id)
		get("explain-job", "/v1/jobs/"+id+"/explain?document=pay")
	}
	try("put-setting", "PUT", "/v1/settings/concurrency/mail", 200, api.SettingChange{Value: []byte("3")}, "")
	get("list-settings", "/v1/settings")
	try("search-jobs", "POST", "/v1/jobs/search", 200, api.JobSearch{Limit: 1}, "")
	try("check-document", "POST", "/v1/documents/pay/check", 200, api.Check{Body: fmt.Sprintf(documentText, 5)}, "")
	try("simulate-revision", "POST", "/v1/documents/pay/revisions/1/simulation", 200, api.Simulation{Scenario: scenarioText}, "")
	try("count-jobs", "POST", "/v1/jobs/count", 200, api.JobCounting{Filter: api.JobFilter{Filter: "payload.a:1"}}, "")
	try("find-jobs", "POST", "/v1/jobs/find", 200, api.JobFind{Filter: api.JobFilter{Filter: "payload.a:1"}}, "")
	try("verify-audit", "POST", "/v1/audit/verify", 200, api.AuditVerify{Lines: 1}, "")
	try("replay-audit", "POST", "/v1/audit/replay", 200, api.AuditReplay{Lines: 1}, "")
	try("replay-audit", "POST", "/v1/audit/replay", 200, api.AuditReplay{Document: "pay"}, "")
	try("enqueue", "POST", "/v1/jobs", 200, api.Enqueue{Jobs: []api.NewJobRequest{{Type: "t", UniqueKey: "u"}}}, "")
	try("set-queue", "PUT", "/v1/queues/out", 200, api.QueueSwitch{Paused: true, Reason: "r"}, "")
	get("list-queues", "/v1/queues")
	try("set-limit", "PUT", "/v1/limits/per-tenant?queue=out", 200, api.LimitSetting{Values: &api.LimitValues{Key: []string{"meta.tenant"}, Concurrency: 2, Rate: &api.LimitRate{Count: 3}}}, "")
	get("list-limits", "/v1/limits")
	try("reset-limit", "DELETE", "/v1/limits/per-tenant?queue=out", 200, nil, "")
	try("run-periodic", "POST", "/v1/periodic/nightly/run", 200, nil, "")
	try("list-causes", "POST", "/v1/dlq/causes", 200, api.CauseQuery{}, "")
	try("preview-redrive", "POST", "/v1/redrives/preview", 200, api.RedriveSelection{Filter: api.JobFilter{Queue: "default"}}, "")
	try("create-redrive", "POST", "/v1/redrives", 200, api.NewRedrive{Canary: 1, Rate: 0.5, StopShare: 0.2}, "")
	flow := api.NewFlow{ID: "nightly/1", Jobs: []api.FlowJobRequest{
		{Node: "a", NewJobRequest: api.NewJobRequest{Type: "mail"}}, {Node: "b", Needs: []string{"a"}, OnFailure: job.FailureHold, NewJobRequest: api.NewJobRequest{Type: "mail"}},
	}}
	try("enqueue-flow", "POST", "/v1/flows", 200, flow, "")
	get("list-flows", "/v1/flows?limit=1")
	get("get-flow", "/v1/flows/nightly%2F1")
	get("list-flow-nodes", "/v1/flows/nightly%2F1/nodes")
	var nodes api.FlowNodePage
	e.get("/v1/flows/nightly%2F1/nodes?after=1").into(t, &nodes)
	get("list-related-jobs", "/v1/jobs/"+nodes.Nodes[0].JobID+"/needs")
	try("change-flow", "POST", "/v1/flows/nightly%2F1/cancel", 200, api.FlowChange{}, "")
	get("list-redrives", "/v1/redrives")
	var page api.RedrivePage
	e.get("/v1/redrives").into(t, &page)
	get("get-redrive", "/v1/redrives/"+page.Redrives[0].ID)
	try("set-redrive-rate", "POST", "/v1/redrives/"+page.Redrives[0].ID+"/rate", 200, api.RedriveRate{Rate: 3}, "")
	try("change-redrive", "POST", "/v1/redrives/"+page.Redrives[0].ID+"/undo", 200, nil, "")
	try("requeue", "POST", "/v1/dlq/requeue", 200, api.JobChange{}, "")
	try("purge", "POST", "/v1/dlq/purge", 200, api.JobChange{}, "")
	try("change-jobs", "POST", "/v1/jobs/actions/cancel", 200, api.JobChange{}, "")
	try("resolve-record", "POST", "/v1/idempotency/resolve", 200, api.Resolution{RecordID: api.RecordID{Key: "k"}, State: idempotency.Failed, Failure: &idempotency.Failure{Type: "t", Message: "m"}, TTL: 60}, tag)
	claim.Fence++
	try("clear-record", "POST", "/v1/idempotency/clear", 204, api.RecordID{Key: "k"}, api.ClaimTag(claim))
	try("expire-records", "POST", "/v1/idempotency/expire", 200, api.Expire{Limit: 10}, "")
	try("create-token", "POST", "/v1/tokens", 200, api.NewToken{Name: "n", Scopes: []policystore.Scope{policystore.ScopeRead}}, "")
	var tokens api.TokenPage
	e.get("/v1/tokens").into(t, &tokens)
	try("revoke-token", "DELETE", "/v1/tokens/"+tokens.Tokens[len(tokens.Tokens)-1].ID, 204, nil, "")
	try("change-rollout", "POST", "/v1/documents/pay/rollout/abort", 200, nil, "")
	get("get-rollout", "/v1/documents/pay/rollout")
	try("publish", "POST", "/v1/documents/new/revisions", 200, api.Publish{Body: fmt.Sprintf(documentText, 3)}, `"0"`)
	try("rollback", "POST", "/v1/documents/pay/rollback", 200, api.Rollback{To: 1}, "*")
	try("publish", "POST", "/v1/documents/new/revisions", 200, api.Publish{Body: fmt.Sprintf(documentText, 4), Trial: true}, `"1"`)
	get("get-trial", "/v1/documents/new/trial")
	try("end-trial", "DELETE", "/v1/documents/new/trial", 200, nil, "")
	try("freeze", "PUT", "/v1/documents/pay/freeze", 200, api.Freeze{Reason: "r"}, "")
	try("unfreeze", "DELETE", "/v1/documents/pay/freeze", 200, nil, "")
	try("publish", "POST", "/v1/documents/pay/revisions", 200, api.Publish{Body: fmt.Sprintf(documentText, 5), Rollout: &api.Plan{Steps: []api.Step{{Share: 1, Hold: 1.5}}}}, "*")
	get("get-rollout", "/v1/documents/pay/rollout")
	try("rotate-signing-key", "POST", "/v1/signing-key/rotate", 200, nil, "")
	try("sign-in", "POST", "/v1/session", 200, api.SignIn{Token: e.secret}, "")
	try("logout", "DELETE", "/v1/session", 204, nil, "")
	for _, o := range e.server.mux.declared {
		if !done[o.OperationID] {
			t.Errorf("%s is not called here", o.OperationID)
		}
	}
}

// TestS7WhatProgramsThatFollowGetIsAsTheDocumentSays: a revision, and 304 once they have it.
func TestS7WhatProgramsThatFollowGetIsAsTheDocumentSays(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go e.server.hub.Run(ctx)
		e.do(call{method: http.MethodPost, path: "/v1/documents/pay/revisions", body: api.Publish{Body: fmt.Sprintf(documentText, 3)}, header: map[string]string{"If-Match": "*"}})
		e.do(call{method: http.MethodPost, path: "/v1/documents/pay/revisions", body: api.Publish{Body: fmt.Sprintf(documentText, 4), Trial: true}, header: map[string]string{"If-Match": "*"}})
		synctest.Wait()
		v := checker(t, e)
		for _, path := range []string{"/v1/documents/pay/live", "/v1/documents/pay/trial/live"} {
			c := call{method: http.MethodGet, path: path, header: map[string]string{}}
			for _, want := range []int{http.StatusOK, http.StatusNotModified} {
				r := e.do(c)
				if r.status != want {
					t.Errorf("%s: %d %s", path, r.status, r.body)
				}
				e.conforms(v, c, r)
				c.header["If-None-Match"] = r.header.Get("ETag")
			}
		}
	})
}

// TestS7TheDocumentDescribesOnlyWhatIsUsed: whoever generates a client from it gets no errors that the server never sends.
func TestS7TheDocumentDescribesOnlyWhatIsUsed(t *testing.T) {
	text := newEnv(t, nil).get("/v1/openapi.json").body
	var document struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil || len(document.Components.Schemas) == 0 {
		t.Fatal(err, text)
	}
	for name := range document.Components.Schemas {
		if !strings.Contains(text, `"#/components/schemas/`+name+`"`) {
			t.Errorf("%s is not used", name)
		}
	}
}

// TestS7NoRequestMakesTheServerFail sends random requests, made from the OpenAPI document, to every operation but those that clients follow
// documents by.
// Each answer is as the document says, none has a status of 500 or above, and no handler panics.
func TestS7NoRequestMakesTheServerFail(t *testing.T) {
	e, ids, _ := filled(t)
	v := checker(t, e)
	f := &fuzzer{random: rand.New(rand.NewPCG(1, 2)), schemas: e.server.api.OpenAPI().Components.Schemas, ids: ids}
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	for _, pattern := range slices.Sorted(maps.Keys(e.server.mux.declared)) {
		o := e.server.mux.declared[pattern]
		if o.stream || o.OperationID == "follow-trial" { // the hub that answers these does not run here
			continue
		}
		for range rounds {
			c := f.call(o)
			r := e.do(c)
			if r.status >= 500 {
				t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, r.status, r.body)
			}
			if r.status < 300 || r.status >= 400 {
				e.conforms(v, call{method: o.Method, path: pathOf(o)}, r)
			}
		}
	}
	if strings.Contains(e.log.String(), "panicked") {
		t.Error(e.log)
	}
}

// fuzzer makes requests from operations and schemas. Its seed is fixed, so that a failure repeats.
type fuzzer struct {
	random  *rand.Rand
	schemas huma.Registry
	ids     []string
}

func pick[T any](f *fuzzer, list ...T) T { return list[f.random.IntN(len(list))] }

func (f *fuzzer) text() string {
	return pick(f, "", "x", "pay", "k", "*", `"1"`, "mail*", "2026-01-01T00:00:00Z", "\u202e\"\\\n<", strings.Repeat("é", 300), "state:dead payload.a:1", "-1", "99999999999999999999", pick(f, f.ids...))
}

func (f *fuzzer) call(o *route) call {
	c := call{method: o.Method, header: map[string]string{"Idempotency-Key": fmt.Sprint("fuzz", f.random.Uint64()), "If-Match": pick(f, "*", `"1"`, `"x"`, "")}}
	query := url.Values{}
	path := o.Path
	for _, p := range o.Parameters {
		value := f.text()
		if p.Schema != nil && f.random.IntN(4) > 0 {
			value = strings.Trim(fmt.Sprint(f.value(p.Schema, 2)), `"`)
		}
		switch p.In {
		case "query":
			if f.random.IntN(2) == 0 {
				query.Set(p.Name, value)
			}
		case "path":
			if value == "" || strings.Trim(value, ".") == "" {
				value = "x"
			}
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(value))
		}
	}
	c.path = path
	if len(query) > 0 {
		c.path += "?" + query.Encode()
	}
	if o.RequestBody == nil {
		return c
	}
	raw, err := json.Marshal(f.value(o.RequestBody.Content["application/json"].Schema, 5))
	if err != nil {
		raw = []byte("{}")
	}
	if f.random.IntN(8) == 0 && len(raw) > 1 {
		raw = raw[:f.random.IntN(len(raw))]
	}
	c.body = string(raw)
	return c
}

// value makes a value for a schema; one in twelve is arbitrary and may not fit.
func (f *fuzzer) value(s *huma.Schema, depth int) any {
	if s.Ref != "" {
		s = f.schemas.SchemaFromRef(s.Ref)
	}
	if depth == 0 || f.random.IntN(12) == 0 {
		return pick[any](f, nil, true, 1, -1.5, f.text(), []any{}, map[string]any{"x": 1})
	}
	if len(s.Enum) > 0 {
		return pick(f, s.Enum...)
	}
	switch s.Type {
	case huma.TypeObject:
		object := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if slices.Contains(s.Required, name) || f.random.IntN(3) == 0 {
				object[name] = f.value(s.Properties[name], depth-1)
			}
		}
		return object
	case huma.TypeArray:
		list := []any{}
		for range f.random.IntN(4) {
			list = append(list, f.value(s.Items, depth-1))
		}
		return list
	case huma.TypeInteger:
		return pick[any](f, 0, 1, 2, 100, 1000, -1, 1<<40)
	case huma.TypeNumber:
		return pick(f, 0, 0.5, 1, 60, -1, 1e300)
	case huma.TypeBoolean:
		return pick(f, true, false)
	}
	return f.text()
}
