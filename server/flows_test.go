package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// flowOf is a flow in which b needs a.
func flowOf(id string) api.NewFlow {
	return api.NewFlow{ID: id, Jobs: []api.FlowJobRequest{
		{Node: "a", NewJobRequest: api.NewJobRequest{Type: "mail", Queue: "out"}}, {Node: "b", Needs: []string{"a"}, NewJobRequest: api.NewJobRequest{Type: "mail", Queue: "out"}},
	}}
}

func TestS7WhatIsNotFoundIsNamed(t *testing.T) {
	e := newEnv(t, nil)
	for path, want := range map[string]string{
		"/v1/flows/nightly": `flow "nightly" not found`, "/v1/flows/nightly/nodes": `flow "nightly" not found`,
		"/v1/jobs/x": `job "x" not found`, "/v1/redrives/x": `redrive "x" not found`,
	} {
		var p api.Problem
		r := e.get(path)
		if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.status != http.StatusNotFound || p.Detail != want {
			t.Errorf("%s: %d %s, want %s", path, r.status, r.body, want)
		}
	}
}

func TestJ20AFlowIsStoredCancelledRetriedAndOnRecord(t *testing.T) {
	e := newEnv(t, nil)
	var made, again api.FlowReceipt
	e.change(http.MethodPost, "/v1/flows", "k", flowOf("nightly")).into(t, &made)
	e.change(http.MethodPost, "/v1/flows", "other", flowOf("nightly")).into(t, &again)
	if made.ID != "nightly" || made.Existed || !again.Existed {
		t.Fatalf("%+v, again %+v", made, again)
	}
	if n := e.settle("out", job.KindDead); n != 1 {
		t.Fatalf("%d jobs were ready", n)
	}
	var f api.FlowStatus
	if e.get("/v1/flows/nightly").into(t, &f); f.State != job.FlowFailed || f.Dead != 1 || f.Cancelled != 1 {
		t.Fatalf("%+v", f)
	}
	var changed api.Changed
	e.change(http.MethodPost, "/v1/flows/nightly/retry", "r", api.FlowChange{}).into(t, &changed)
	if len(changed.IDs) != 2 {
		t.Fatalf("retried %v", changed.IDs)
	}
	if e.get("/v1/flows/nightly").into(t, &f); f.State != job.FlowRunning || f.Ready != 1 || f.Waiting != 1 {
		t.Fatalf("%+v", f)
	}
	e.change(http.MethodPost, "/v1/flows/nightly/cancel", "c", api.FlowChange{}).into(t, &changed)
	if e.get("/v1/flows/nightly").into(t, &f); f.State != job.FlowCancelled {
		t.Fatalf("%+v", f)
	}
	if raw := e.get("/v1/audit/events?type=operator_action").body; !strings.Contains(raw, "flows.enqueue") || !strings.Contains(raw, "flows.retry") || !strings.Contains(raw, "flows.cancel") {
		t.Errorf("on record: %s", raw)
	}
	for path, want := range map[string]int{"/v1/flows/none": 404, "/v1/flows/none/nodes": 404} {
		if got := e.do(call{method: http.MethodGet, path: path}).status; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	loop := flowOf("loop")
	loop.Jobs[0].Needs = []string{"b"}
	if r := e.change(http.MethodPost, "/v1/flows", "loop", loop); r.status != http.StatusUnprocessableEntity {
		t.Errorf("a cycle: %d", r.status)
	}
}

func TestS5ATokenThatIsBoundToQueuesSeesNoFlows(t *testing.T) {
	e := newEnv(t, nil)
	e.change(http.MethodPost, "/v1/flows", "k", flowOf("nightly"))
	bound := e.tokenOf(policystore.Token{Name: "bound", Scopes: []policystore.Scope{policystore.ScopeRead, policystore.ScopeOperate}, Queues: []string{"out"}})
	for _, path := range []string{"/v1/flows", "/v1/flows/nightly", "/v1/flows/nightly/nodes"} {
		if got := e.do(call{method: http.MethodGet, path: path, secret: bound}).status; got != http.StatusForbidden {
			t.Errorf("%s: %d", path, got)
		}
	}
}
