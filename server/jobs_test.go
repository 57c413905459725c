package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

func TestS7AJobIsStoredListedChangedAndOnRecord(t *testing.T) {
	e := newEnv(t, nil)
	ids := e.enqueue(api.NewJobRequest{Type: "mail", Queue: "out", Payload: []byte(`{"to":"a","cookie":"s3cret"}`)}, api.NewJobRequest{Type: "mail", Queue: "in"})
	again := e.enqueue(api.NewJobRequest{Type: "mail", Queue: "out", Payload: []byte(`{"to":"a","cookie":"s3cret"}`)}, api.NewJobRequest{Type: "mail", Queue: "in"})
	if !slices.Equal(ids, again) {
		t.Errorf("the same key stored other jobs: %v, %v", ids, again)
	}
	var page api.JobPage
	e.get("/v1/jobs?filter=queue:out").into(t, &page)
	if len(page.Jobs) != 1 || page.Jobs[0].ID != ids[0] || strings.Contains(string(page.Jobs[0].Payload), "s3cret") || page.Next != "" {
		t.Fatalf("listed: %+v", page)
	}
	if r := e.get("/v1/jobs/" + ids[0] + "?secrets=true"); !strings.Contains(r.body, "s3cret") {
		t.Errorf("secrets: %s", r.body)
	}
	var first, second api.JobPage
	e.get("/v1/jobs?limit=1").into(t, &first)
	e.get("/v1/jobs?limit=1&cursor="+string(first.Next)).into(t, &second)
	if len(first.Jobs) != 1 || len(second.Jobs) != 1 || first.Jobs[0].ID >= second.Jobs[0].ID {
		t.Errorf("pages: %+v, %+v", first, second)
	}
	var changed api.Changed
	e.change(http.MethodPost, "/v1/jobs/actions/cancel", "c1", api.JobChange{Filter: api.JobFilter{Filter: "queue:out"}}).into(t, &changed)
	if !slices.Equal(changed.IDs, ids[:1]) {
		t.Errorf("cancelled: %v", changed.IDs)
	}
	if r, _, err := e.db.Jobs().Get(t.Context(), ids[0]); err != nil || r.State != job.Cancelled {
		t.Errorf("%+v, %v", r, err)
	}
	log := e.get("/v1/audit/events?type=operator_action")
	for _, want := range []string{`"action":"jobs.enqueue"`, `"action":"jobs.cancel"`, `"from":"ready"`, `"to":"cancelled"`, `"actor":"token:`} {
		if !strings.Contains(log.body, want) {
			t.Errorf("the log has no %s:\n%s", want, log.body)
		}
	}
	if n := strings.Count(log.body, `"action":"jobs.enqueue"`); n != 1 {
		t.Errorf("%d records of one enqueue", n)
	}
}

// slow is a store whose enqueues take a second. As in PostgreSQL, they are made although their caller has given up.
type slow struct{ JobStore }

func (s slow) Enqueue(ctx context.Context, list []job.Insert) ([]job.Receipt, error) {
	receipts, err := s.JobStore.Enqueue(context.WithoutCancel(ctx), list)
	if ended := wait.For(ctx, time.Second); ended != nil {
		return nil, ended
	}
	return receipts, err
}

func TestS6AChangeWhoseCallerLeavesIsMadeOnce(t *testing.T) {
	inBubble(t, func(o *Options) { o.Jobs = slow{o.Jobs} }, func(t *testing.T, e *env) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/jobs", strings.NewReader(`{"jobs":[{"type":"t"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + e.secret, "Content-Type": "application/json", "Idempotency-Key": "k"} {
			r.Header.Set(name, value)
		}
		if answer, err := e.client.Do(r); err == nil {
			answer.Body.Close()
			t.Fatal(answer.Status)
		}
		time.Sleep(time.Second)
		if again := e.change(http.MethodPost, "/v1/jobs", "k", `{"jobs":[{"type":"t"}]}`); again.status != http.StatusOK {
			t.Errorf("%d %s", again.status, again.body)
		}
		if list, err := e.db.Jobs().List(t.Context(), job.Filter{}, "", 10); err != nil || len(list) != 1 {
			t.Errorf("%d jobs, %v", len(list), err)
		}
	})
}

func TestS5ABoundTokenSeesAndChangesItsQueuesOnly(t *testing.T) {
	e := newEnv(t, nil)
	ids := e.enqueue(api.NewJobRequest{Type: "a", Queue: "mail.in"}, api.NewJobRequest{Type: "b", Queue: "bills"})
	e.secret = e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead, policystore.ScopeOperate}, Queues: []string{"mail*"}})
	var page api.JobPage
	e.get("/v1/jobs").into(t, &page)
	if len(page.Jobs) != 1 || page.Jobs[0].ID != ids[0] {
		t.Errorf("listed: %+v", page)
	}
	for path, want := range map[string]int{
		"/v1/jobs/" + ids[1]: 404, "/v1/jobs/" + ids[0]: 200, "/v1/audit/events": 403, "/v1/idempotency": 403, "/v1/jobs?filter=queue:bills": 200,
		"/v1/events?topics=transitions": 403,
	} {
		if r := e.get(path); r.status != want {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if r := e.get("/v1/stats"); strings.Contains(r.body, "bills") || !strings.Contains(r.body, "mail.in") {
		t.Errorf("counted: %s", r.body)
	}
	if r := e.change(http.MethodPost, "/v1/jobs", "k", api.Enqueue{Jobs: []api.NewJobRequest{{Type: "a", Queue: "bills"}}}); r.status != 403 {
		t.Errorf("enqueue: %d %s\n%s", r.status, r.body, e.log)
	}
	if r := e.change(http.MethodPut, "/v1/queues/bills", "k2", api.QueueSwitch{Paused: true, Reason: "r"}); r.status != 403 {
		t.Errorf("pause: %d", r.status)
	}
	var changed api.Changed
	e.change(http.MethodPost, "/v1/jobs/actions/delete", "d", api.JobChange{Filter: api.JobFilter{IDs: ids}}).into(t, &changed)
	if !slices.Equal(changed.IDs, ids[:1]) {
		t.Errorf("deleted %v of %v", changed.IDs, ids)
	}
}
