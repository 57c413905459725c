package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

func TestJ22SettingsAreChangedWithinTheCallersQueuesAndRecorded(t *testing.T) {
	e := newEnv(t, func(o *Options) {
		o.Periodic = []job.Periodic{{Name: "nightly", Cron: "0 3 * * *", Request: job.Request{Type: "report", Queue: "reports"}}}
	})
	put := func(path, body string, status int) string {
		t.Helper()
		r := e.change(http.MethodPut, "/v1/settings/"+path, "key-"+path+body+e.secret, body)
		if r.status != status {
			t.Errorf("%s %s: %d %s", path, body, r.status, r.body)
		}
		return r.body
	}
	all := e.secret
	mailer := e.tokenOf(policystore.Token{Name: "mailer", Scopes: []policystore.Scope{policystore.ScopeRead, policystore.ScopeOperate}, Queues: []string{"mail*"}})
	reader := e.token(policystore.ScopeRead)
	const daily = `{"value":{"cron":"@daily","job":{"type":"t","queue":"mail","payload":{"authorization":"s3cret"}}}}`
	put("periodic/nightly", `{"value":{"deleted":true}}`, 200)
	put("periodic/report", strings.Replace(daily, "mail", "reports", 1), 200)
	e.secret = mailer
	put("concurrency/mail", `{"value":3}`, 200)
	put("concurrency/other", `{"value":3}`, 403)
	put("periodic/mails", daily, 200)
	put("periodic/report", daily, 403)                      // which is in a queue of others now
	put("periodic/nightly", `{"value":null}`, 403)          // which would bring back one in a queue of others
	put("concurrency/mail", `{"value":3,"version":1}`, 409) // it is 4
	put("concurrency/mail", `{"value":0}`, 422)
	put("periodic/mails", `{"value":{"cron":"never","job":{"type":"t"}}}`, 422)
	if list := e.get("/v1/settings").body; strings.Contains(list, "reports") || strings.Contains(list, "s3cret") || !strings.Contains(list, `"by":"token:mailer"`) {
		t.Error(list)
	}
	e.secret = reader
	put("concurrency/mail", `{"value":9}`, 403)
	e.secret = all
	var periodic api.PeriodicList
	e.get("/v1/periodic").into(t, &periodic)
	if len(periodic.Periodic) != 2 || periodic.Periodic[0].Name != "mails" || periodic.Periodic[0].Source != api.SourceOperator || periodic.Periodic[0].By != "token:mailer" {
		t.Errorf("%+v", periodic)
	}
	_, lines := e.auditLines("action=queues.set")
	if len(lines) != 1 {
		t.Errorf("%d records of queues.set", len(lines))
	}
}
