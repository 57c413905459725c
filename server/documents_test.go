package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

const documentText = "version: 1\npolicies: {pay.Charge: {retry: {max_attempts: %d}}}\n"

func TestS1ADocumentIsPublishedComparedAndBroughtBack(t *testing.T) {
	e := newEnv(t, nil)
	post := func(path, base string, body any) reply {
		return e.do(call{method: http.MethodPost, path: "/v1/documents/pay" + path, body: body, header: map[string]string{"If-Match": base}})
	}
	for i, base := range []string{`"0"`, `"1"`} {
		var p api.Published
		r := post("/revisions", base, api.Publish{Body: fmt.Sprintf(documentText, i+3), Message: "m"})
		if r.into(t, &p); r.status != 200 || p.Revision != int64(i+1) || p.Name != "pay" {
			t.Fatalf("publish: %d %s", r.status, r.body)
		}
	}
	if r := e.get("/v1/documents/pay"); r.header.Get("ETag") != `"2"` {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	var page, next api.Revisions
	e.get("/v1/documents/pay/revisions?limit=1").into(t, &page)
	e.get("/v1/documents/pay/revisions?limit=1&cursor="+string(page.Next)).into(t, &next)
	if len(page.Revisions) != 1 || page.Revisions[0].Revision != 2 || len(next.Revisions) != 1 || next.Revisions[0].Revision != 1 {
		t.Errorf("%+v, %+v", page, next)
	}
	if r := e.get("/v1/documents/pay/diff?from=1&to=2"); !strings.Contains(r.body, "policies.pay.Charge.retry.max_attempts") {
		t.Errorf("%d %s", r.status, r.body)
	}
	var p api.Published
	if post("/rollback", `"2"`, api.Rollback{To: 1}).into(t, &p); p.Revision != 3 {
		t.Errorf("%+v", p)
	}
	if r := e.get("/v1/documents/pay/revisions/3"); !strings.Contains(r.body, `"restores":1`) || !strings.Contains(r.body, "max_attempts: 3") {
		t.Errorf("%d %s", r.status, r.body)
	}
	r := post("/revisions", `"3"`, api.Publish{Body: fmt.Sprintf(documentText, 9), Rollout: &api.Plan{}})
	if p = (api.Published{}); r.status == 200 {
		r.into(t, &p)
	}
	if p.Rollout == nil || len(p.Rollout.Plan.Steps) != 4 {
		t.Errorf("rollout: %d %s", r.status, r.body)
	}
	for action, want := range map[string]string{"pause": `"paused"`} {
		if r := e.change(http.MethodPost, "/v1/documents/pay/rollout/"+action, action, nil); !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %s", action, r.status, r.body)
		}
	}
	if r := e.get("/v1/documents/pay/rollout"); !strings.Contains(r.body, `"candidate":4`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	e.change(http.MethodPost, "/v1/documents/pay/rollout/abort", "abort", nil)
	if r := e.change(http.MethodPut, "/v1/documents/pay/freeze", "f", api.Freeze{Reason: "holidays"}); r.status != 200 {
		t.Errorf("freeze: %d %s", r.status, r.body)
	}
	if r := post("/revisions", "*", api.Publish{Body: fmt.Sprintf(documentText, 5)}); r.status != 409 || !strings.Contains(r.body, "holidays") {
		t.Errorf("frozen: %d %s", r.status, r.body)
	}
	if r := e.get("/v1/audit/events"); strings.Count(r.body, `"action":"documents.publish"`) != 4 {
		t.Errorf("on record: %s", r.body)
	}
	e.secret = e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead, policystore.ScopePublish}, Documents: []string{"other"}})
	if r := e.get("/v1/documents/pay"); r.status != 403 {
		t.Errorf("bound to another: %d", r.status)
	}
	if r := e.get("/v1/documents"); strings.Contains(r.body, `"pay"`) {
		t.Errorf("bound to another: %s", r.body)
	}
}
