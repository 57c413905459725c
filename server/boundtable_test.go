package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// withoutBounds are operations that know neither queues nor documents.
var withoutBounds = map[string]bool{
	"livez": true, "readyz": true, "openapi": true, "login": true, "login-callback": true, "logout": true, "sign-in": true, "sign-in-methods": true, "who-am-i": true,
	"list-indexes": true, "get-signing-key": true, "rotate-signing-key": true, "list-tokens": true, "create-token": true, "revoke-token": true, "expire-records": true,
}

// bodies are what the other operations send, where they send something.
var bodies = map[string]string{
	"search-jobs": `{"filter":{"filter":"state:dead"}}`, "find-jobs": `{}`, "count-jobs": `{"filter":{"filter":"type:theirs"}}`, "list-causes": `{}`, "preview-redrive": `{}`,
	"enqueue": `{"jobs":[{"type":"t","queue":"theirs"}]}`, "change-jobs": `{"filter":{"filter":"state:dead"}}`, "requeue": `{"filter":{}}`, "purge": `{"filter":{}}`,
	"create-redrive": `{}`, "change-redrive": ``, "set-redrive-rate": `{"rate":7}`, "enqueue-flow": `{"jobs":[{"node":"a","type":"t","queue":"theirs"}]}`, "change-flow": `{}`,
	"set-queue": `{"paused":false}`, "set-limit": `{"off":true}`, "put-setting": `{"value":null}`, "verify-audit": `{}`, "replay-audit": `{"document":"theirs"}`,
	"resolve-record": `{"key":"theirs","state":"failed","ttl":60}`, "clear-record": `{"key":"theirs"}`,
	"check-document": `{"body":"version: 1\n"}`, "simulate-revision": `{"scenario":"x"}`, "publish": `{"body":"version: 1\n"}`, "rollback": `{"to":1}`, "freeze": `{"reason":"r"}`,
	"report": `{"client":"c","session":"s","sequence":1,"applied":1}`,
}

// queries select what belongs to others, where a path does not.
var queries = map[string]string{
	"stats-history": "queue=theirs", "set-limit": "queue=theirs", "reset-limit": "queue=theirs", "list-clients": "document=theirs", "list-mechanisms": "document=theirs",
	"list-pipelines": "document=theirs", "diff-revisions": "from=1&to=2", "get-record": "key=theirs", "explain-job": "document=theirs", "events": "topics=stats",
}

// TestS5EveryOperationKeepsToTheBoundsOfAToken: a token that may do everything with its queue and its document reads and changes nothing else.
func TestS5EveryOperationKeepsToTheBoundsOfAToken(t *testing.T) {
	e := newEnv(t, func(o *Options) {
		o.Periodic = []job.Periodic{{Name: "nightly", Cron: "@daily", Request: job.Request{Type: "t", Queue: "theirs"}}}
	})
	ids := e.seedTheirs()
	before := e.everything()
	admin := []policystore.Scope{policystore.ScopeAdmin}
	secret := e.tokenOf(policystore.Token{Scopes: admin, Queues: []string{"mine"}, Documents: []string{"mine"}})
	before["tokens"] = e.everything()["tokens"] // with this one
	for _, o := range e.server.mux.declared {
		if withoutBounds[o.OperationID] {
			continue
		}
		for _, path := range ids.paths(o) {
			for _, query := range []string{queries[o.OperationID], ""} {
				e.keepsToBounds(o, path+"?"+query, secret)
			}
		}
	}
	after := e.everything()
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%s were changed:\n%s\n%s", name, was, after[name])
		}
	}
}

// keepsToBounds makes a request, which has to be refused or to be answered without what belongs to others.
func (e *env) keepsToBounds(o *route, path, secret string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, o.Method, e.url+path, strings.NewReader(bodies[o.OperationID]))
	if err != nil {
		e.t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + secret, "Content-Type": "application/json", "Idempotency-Key": o.OperationID + path, "If-Match": "*"} {
		r.Header.Set(name, value)
	}
	answer, err := e.client.Do(r)
	if err != nil {
		e.t.Fatal(err)
	}
	defer answer.Body.Close()
	if o.stream {
		time.AfterFunc(2*time.Second, cancel)
	}
	body, _ := io.ReadAll(answer.Body) // of a stream what came
	allowed := answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusNotFound
	if !allowed && (answer.StatusCode >= 400 || strings.Contains(string(body), "theirs")) {
		log := e.log.String()
		e.t.Errorf("%s %s %s: %d %s\nlog: %s", o.OperationID, o.Method, path, answer.StatusCode, body, log[max(0, len(log)-1000):])
	}
}

// theirs are IDs of what belongs to others.
type theirs struct{ job, redrive string }

// paths are the paths of an operation on what belongs to others.
func (i theirs) paths(o *route) []string {
	id := i.job
	switch {
	case strings.Contains(o.Path, "redrives"):
		id = i.redrive
	case strings.Contains(o.Path, "flows"):
		id = "theirs"
	}
	fill := func(pairs ...string) string {
		return strings.NewReplacer(append(pairs, "{id}", id, "{name}", "theirs", "{queue}", "theirs", "{revision}", "1")...).Replace(o.Path)
	}
	switch o.OperationID {
	case "run-periodic":
		return []string{fill("{name}", "nightly"), fill("{name}", "set")}
	case "put-setting":
		return []string{fill("{kind}", "concurrency"), fill("{kind}", "periodic", "{name}", "nightly"), fill("{kind}", "periodic", "{name}", "set")}
	case "list-related-jobs":
		return []string{fill("{relation}", "needs"), fill("{relation}", "dependents")}
	case "change-redrive":
		return []string{fill("{action}", "pause"), fill("{action}", "undo")}
	case "change-rollout":
		return []string{fill("{action}", "pause"), fill("{action}", "abort")}
	case "change-jobs":
		return []string{fill("{action}", "retry"), fill("{action}", "cancel"), fill("{action}", "delete")}
	}
	return []string{fill("{action}", "cancel")}
}

// seedTheirs stores something of every kind under the name theirs.
func (e *env) seedTheirs() theirs {
	e.t.Helper()
	ctx, store := e.t.Context(), e.db.Jobs()
	must := func(r reply) {
		e.t.Helper()
		if r.status >= 300 {
			e.t.Fatalf("%d %s", r.status, r.body)
		}
	}
	ids := e.enqueue(api.NewJobRequest{Type: "theirs", Queue: "theirs", Meta: map[string]string{"of": "theirs"}})
	e.settle("theirs", job.KindDead)
	e.enqueue(api.NewJobRequest{Type: "ready", Queue: "theirs"})
	flow := flowOf("theirs")
	flow.Jobs[0].Queue, flow.Jobs[1].Queue = "theirs", "theirs"
	must(e.change(http.MethodPost, "/v1/flows", "flow", flow))
	var made api.Redrive
	e.change(http.MethodPost, "/v1/redrives", "redrive", `{"rate":0.001}`).into(e.t, &made)
	must(e.change(http.MethodPut, "/v1/queues/theirs", "pause", api.QueueSwitch{Paused: true, Reason: "theirs"}))
	must(e.change(http.MethodPut, "/v1/limits/theirs?queue=theirs", "limit", api.LimitSetting{Values: &api.LimitValues{Concurrency: 1}}))
	must(e.change(http.MethodPut, "/v1/settings/concurrency/theirs", "setting", `{"value":3}`))
	must(e.change(http.MethodPut, "/v1/settings/periodic/set", "periodic", `{"value":{"cron":"@daily","job":{"type":"t","queue":"theirs"}}}`))
	for i, text := range []string{"version: 1\n", "version: 1\npolicies: {theirs.a: {}}\n"} {
		must(e.do(call{method: http.MethodPost, path: "/v1/documents/theirs/revisions", body: api.Publish{Body: text, AcceptWarnings: true, Trial: i > 0}, header: map[string]string{"If-Match": "*"}}))
	}
	now := time.Now()
	if err := e.options.Policies.SaveClients(ctx, []policystore.Client{{Document: "theirs", ID: "theirs", LastSeen: now, Reported: &policystore.Reported{
		Mechanisms: []policystore.Mechanism{{Kind: "breaker", Name: "theirs", State: "open", Since: now}}, Pipelines: []policystore.Pipeline{{Kind: "consumer", Name: "theirs", Begun: now}},
	}}}); err != nil {
		e.t.Fatal(err)
	}
	if err := store.Announce(ctx, job.WorkerInfo{Name: "w", Queues: []string{"theirs"}, Types: []string{"theirs"}}, time.Hour); err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.options.Records.Begin(ctx, idempotency.BeginRequest{ID: idempotency.ID{Key: "theirs"}, Owner: "theirs", Lease: time.Hour}); err != nil {
		e.t.Fatal(err)
	}
	return theirs{ids[0], made.ID}
}

// everything is what the server keeps, as its admin sees it.
func (e *env) everything() map[string]string {
	e.t.Helper()
	out := map[string]string{}
	for _, path := range []string{
		"/v1/jobs?limit=1000", "/v1/queues", "/v1/limits", "/v1/settings", "/v1/flows", "/v1/documents", "/v1/documents/theirs", "/v1/redrives", "/v1/clients?document=theirs", "/v1/idempotency/record?key=theirs",
		"/v1/signing-key", "/v1/tokens",
	} {
		r := e.get(path)
		if r.status != http.StatusOK {
			e.t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
		out[strings.TrimPrefix(path, "/v1/")] = r.body
	}
	return out
}
