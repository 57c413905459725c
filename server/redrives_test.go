package server

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// settle claims all ready jobs of a queue and settles them; it returns how many there were.
func (e *env) settle(queue string, kind job.Kind) int {
	e.t.Helper()
	store := e.db.Jobs()
	claimed, err := store.Claim(e.t.Context(), job.Claim{Worker: "w", Queues: []job.Slots{{Queue: queue, Free: 1000}}, Lease: time.Hour})
	if err != nil {
		e.t.Fatal(err)
	}
	for _, r := range claimed {
		if errs := store.Settle(e.t.Context(), []job.Settlement{{Ref: r.Ref(), Kind: kind, Error: "boom"}}); errs != nil {
			e.t.Fatal(errs)
		}
	}
	return len(claimed)
}

// bury stores n jobs of a queue, which die.
func (e *env) bury(queue string, n int) {
	e.t.Helper()
	list := make([]job.Request, n)
	for i := range list {
		list[i] = job.Request{Type: "mail", Queue: queue}
	}
	if _, err := job.NewClient(e.db.Jobs()).EnqueueMany(e.t.Context(), list); err != nil {
		e.t.Fatal(err)
	}
	if got := e.settle(queue, job.KindDead); got != n {
		e.t.Fatalf("%d jobs died, want %d", got, n)
	}
}

// works runs the background work of a server for the rest of a test in a bubble.
func (e *env) works() (stop func()) {
	ctx, cancel := context.WithCancel(e.t.Context())
	var group sync.WaitGroup
	group.Go(func() { e.server.Work(ctx) })
	return func() { cancel(); group.Wait() }
}

func (e *env) redrive(id string) (r api.Redrive) {
	e.t.Helper()
	e.get("/v1/redrives/"+id).into(e.t, &r)
	return r
}

func TestJ23ARedriveIsMadeRunJudgedAndOnRecord(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		e.bury("out", 40)
		e.bury("in", 2)
		var preview api.RedrivePreview
		e.do(call{method: http.MethodPost, path: "/v1/redrives/preview", body: api.RedriveSelection{Filter: api.JobFilter{Filter: "queue:out error:boom"}}}).into(t, &preview)
		if preview.Total != 40 || len(preview.Groups) != 1 || preview.Groups[0] != (job.RedriveGroup{Queue: "out", Type: "mail", Jobs: 40}) {
			t.Fatalf("%+v", preview)
		}
		var made, again api.Redrive
		body := api.NewRedrive{RedriveSelection: api.RedriveSelection{Filter: api.JobFilter{Filter: "queue:out"}}, Canary: 3, Rate: 10, StopShare: 0.5, StopLeast: 4}
		e.change(http.MethodPost, "/v1/redrives", "k", body).into(t, &made)
		e.change(http.MethodPost, "/v1/redrives", "k", body).into(t, &again)
		if made.Total != 40 || made.ID == "" || again.ID != made.ID || made.Phase != job.PhaseCanary || !strings.HasPrefix(made.Actor, "token:") {
			t.Fatalf("%+v, again %s", made, again.ID)
		}
		var causes api.Causes
		e.do(call{method: http.MethodPost, path: "/v1/dlq/causes", body: api.CauseQuery{Filter: api.JobFilter{Queue: "out"}}}).into(t, &causes)
		if len(causes.Groups) != 1 || causes.Groups[0].Count != 40 || causes.Groups[0].Fingerprint != "boom" || len(causes.Groups[0].Samples) != 3 || causes.Looked != 0 {
			t.Errorf("%+v", causes)
		}
		e.do(call{method: http.MethodPost, path: "/v1/redrives/preview", body: api.RedriveSelection{Filter: api.JobFilter{Filter: "cause:" + causes.Groups[0].Cause}}}).into(t, &preview)
		if preview.Total != 42 {
			t.Errorf("%+v", preview)
		}
		defer e.works()()
		time.Sleep(10 * time.Second)
		if r := e.redrive(made.ID); r.Released != 3 || r.Pending != 3 || r.Left != 37 || r.Phase != job.PhaseCanary {
			t.Fatalf("the canary: %+v", r)
		}
		e.settle("out", job.KindComplete)
		time.Sleep(time.Second)
		if r := e.redrive(made.ID); r.Completed != 3 || r.Released <= 3 || r.Released > 3+21 || r.Phase != job.PhaseReleasing {
			t.Fatalf("after the canary: %+v", r)
		}
		e.settle("out", job.KindDead)
		time.Sleep(5 * time.Second)
		r := e.redrive(made.ID)
		if r.State != job.RedriveStopped || !strings.Contains(r.Reason, "died again") || r.Left == 0 || len(r.DeadJobs) == 0 {
			t.Fatalf("%+v", r)
		}
		log := e.get("/v1/audit/events?type=operator_action").body
		for _, want := range []string{`"action":"redrives.create"`, `"jobs":"40"`, `"filter":"queue:out"`, `"stop_share":"0.5"`, `"action":"redrives.judge"`, `"to":"stopped"`, `"actor":"server:redrives"`, `"from":"running"`} {
			if !strings.Contains(log, want) {
				t.Errorf("the log has no %s:\n%s", want, log)
			}
		}
		if n := strings.Count(log, "redrives.create"); n != 1 {
			t.Errorf("%d records of one redrive", n)
		}
	})
}

// aborting is a store whose redrive somebody aborts while it is judged.
type aborting struct {
	JobStore
	job.RedriveStepper
}

func (a aborting) UpdateRedrive(ctx context.Context, id string, c job.RedriveChange) (job.Redrive, error) {
	if c.Action == job.RedriveEnd {
		if r, err := a.RedriveStepper.UpdateRedrive(ctx, id, job.RedriveChange{Action: job.RedriveAbort, Actor: "else"}); err != nil {
			return r, err
		}
	}
	return a.RedriveStepper.UpdateRedrive(ctx, id, c)
}

func TestS6TheLogSaysThatAJudgementOfARedriveDidNotTakeEffect(t *testing.T) {
	inBubble(t, func(o *Options) { o.Jobs = aborting{o.Jobs, o.Jobs.(job.RedriveStepper)} }, func(t *testing.T, e *env) {
		e.bury("out", 2)
		var made api.Redrive
		e.change(http.MethodPost, "/v1/redrives", "k", api.NewRedrive{RedriveSelection: api.RedriveSelection{Filter: api.JobFilter{Filter: "queue:out"}}}).into(t, &made)
		defer e.works()()
		time.Sleep(5 * time.Second)
		e.settle("out", job.KindComplete)
		time.Sleep(20 * time.Second)
		if r := e.redrive(made.ID); r.State != job.RedriveAborted {
			t.Fatalf("%+v", r)
		}
		found := e.actions()[1:] // after redrives.create
		if len(found) != 2 || found[0].Action != "redrives.judge" || found[1].Action != "redrives.judge" || found[1].To != string(job.RedriveFinished) ||
			found[1].Detail != "refused: the redrive has changed" || found[1].Attributes["redrive"] != made.ID {
			t.Errorf("%+v", found)
		}
	})
}

func TestJ23ARedriveIsPausedChangedAndUndone(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		e.bury("out", 30)
		var made api.Redrive
		e.change(http.MethodPost, "/v1/redrives", "k", api.NewRedrive{Rate: 0.001}).into(t, &made)
		act := func(path string, body any) (r api.Redrive) {
			t.Helper()
			e.change(http.MethodPost, "/v1/redrives/"+made.ID+"/"+path, path, body).into(t, &r)
			return r
		}
		defer e.works()()
		time.Sleep(5 * time.Second)
		if r := act("pause", nil); r.State != job.RedrivePaused || r.Released != 1 {
			t.Fatalf("%+v", r)
		}
		act("rate", api.RedriveRate{Rate: 0})
		time.Sleep(5 * time.Second)
		if r := act("resume", nil); r.Released != 1 {
			t.Fatalf("released while paused: %+v", r)
		}
		time.Sleep(5 * time.Second)
		if r := act("undo", nil); r.State != job.RedriveAborted || r.Phase != job.PhaseUndoing || r.Released != 30 {
			t.Fatalf("%+v", r)
		}
		time.Sleep(5 * time.Second)
		if r := e.redrive(made.ID); r.Undone != 30 || r.Phase != job.PhaseIdle || !strings.HasPrefix(r.Reason, "by token:") {
			t.Fatalf("%+v", r)
		}
		if r := e.change(http.MethodPost, "/v1/redrives/"+made.ID+"/resume", "late", nil); r.status != 409 {
			t.Errorf("resume of an aborted redrive: %d %s", r.status, r.body)
		}
		log := e.get("/v1/audit/events?type=operator_action").body
		for _, want := range []string{`"action":"redrives.pause"`, `"action":"redrives.set_rate"`, `"from":"0.001/s"`, `"action":"redrives.undo"`} {
			if !strings.Contains(log, want) {
				t.Errorf("the log has no %s:\n%s", want, log)
			}
		}
		if strings.Count(log, `"action":"redrives.resume"`) != 1 {
			t.Error("a refused change is on record")
		}
	})
}

func TestJ23ABoundTokenRedrivesItsQueuesOnly(t *testing.T) {
	e := newEnv(t, nil)
	e.bury("mail.in", 2)
	e.bury("bills", 3)
	var all api.Redrive
	e.change(http.MethodPost, "/v1/redrives", "a", api.NewRedrive{Rate: 1}).into(t, &all)
	e.secret = e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead, policystore.ScopeOperate}, Queues: []string{"mail*"}})
	if r := e.get("/v1/redrives"); r.status != 200 || strings.Contains(r.body, all.ID) {
		t.Errorf("%d %s", r.status, r.body)
	}
	unknown := "01990000-0000-7000-8000-000000000000"
	hidden, none := e.get("/v1/redrives/"+all.ID), e.get("/v1/redrives/"+unknown)
	if hidden.status != 404 || strings.ReplaceAll(hidden.body, all.ID, unknown) != none.body {
		t.Errorf("%d %s, not as one that does not exist: %s", hidden.status, hidden.body, none.body)
	}
	if r := e.change(http.MethodPost, "/v1/redrives/"+all.ID+"/abort", "b", nil); r.status != 404 {
		t.Errorf("abort: %d %s", r.status, r.body)
	}
	for name, body := range map[string]api.NewRedrive{
		"another queue": {RedriveSelection: api.RedriveSelection{Filter: api.JobFilter{Filter: "queue:bills"}}},
		"a named queue": {RedriveSelection: api.RedriveSelection{Filter: api.JobFilter{Queue: "bills"}}},
		"a state":       {RedriveSelection: api.RedriveSelection{Filter: api.JobFilter{Filter: "state:ready"}}},
		"two canaries":  {Canary: 1, CanaryShare: 0.5},
	} {
		if r := e.change(http.MethodPost, "/v1/redrives", name, body); r.status < 400 || r.status >= 500 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	var own api.Redrive
	e.change(http.MethodPost, "/v1/redrives", "c", api.NewRedrive{}).into(t, &own)
	if own.Total != 2 {
		t.Errorf("%+v", own)
	}
	var page api.RedrivePage
	e.get("/v1/redrives").into(t, &page)
	if len(page.Redrives) != 1 || page.Redrives[0].ID != own.ID {
		t.Errorf("%+v", page)
	}
}
