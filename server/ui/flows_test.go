package ui_test

import (
	"context"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// flowPaths lists a path of every page and preview of flows and limits.
var flowPaths = map[string]string{
	"flows": "flows", "flows-none": "flows?id=nothing", "flow": "flows/nightly", "flow-grouped": "flows/mailing", "flow-layers": "flows/long",
	"cancel-flow": "do/flows/nightly/cancel", "retry-flow": "do/flows/nightly/retry",
	"limits": "limits", "set-limit": "do/limits/set?name=per-tenant&queue=exports", "reset-limit": "do/limits/reset?name=per-tenant&queue=exports", "new-limit": "do/limits/new",
}

// storeFlow stores a flow.
func (s *site) storeFlow(f *job.Flow) {
	s.t.Helper()
	if _, err := job.NewClient(s.db.Jobs()).EnqueueFlow(context.Background(), f); err != nil {
		s.t.Fatal(err)
	}
}

// node makes a job of a flow.
func node(name, jobType string, needs ...string) job.FlowJob {
	return job.FlowJob{Node: name, Needs: needs, Request: job.Request{Type: jobType, Queue: "flows", Payload: []byte(`{}`)}}
}

// end claims jobs of the types that are ready, and settles them.
func (s *site) end(queue string, n int, kind job.Kind, types ...string) []*job.Record {
	s.t.Helper()
	ctx, store := context.Background(), s.db.Jobs()
	list, err := store.Claim(ctx, job.Claim{Worker: "host-2", Queues: []job.Slots{{Queue: queue, Free: n}}, Types: types, Lease: time.Hour})
	if err != nil || len(list) != n {
		s.t.Fatalf("claimed %d of %d: %v", len(list), n, err)
	}
	if kind == "" {
		return list
	}
	settled := make([]job.Settlement, len(list))
	for i, r := range list {
		settled[i] = job.Settlement{Ref: r.Ref(), Kind: kind}
		switch kind {
		case job.KindComplete:
			settled[i].Output = fmt.Appendf(nil, `{"rows": %d}`, 100*(i+1))
		case job.KindDead:
			settled[i].Reason, settled[i].Error = policy.ReasonNonRetryable, "warehouse: table orders is locked"
		}
	}
	for _, err := range store.Settle(ctx, settled) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return list
}

// nightly is a flow of 12 jobs: three extracts, transforms that need them, a load and reports.
func nightly() *job.Flow {
	f := &job.Flow{ID: "nightly"}
	extracts := f.Group(nil, node("extract-orders", "extract"), node("extract-customers", "extract"), node("extract-stock", "extract"))
	f.Add(node("clean-orders", "clean", "extract-orders"))
	f.Add(node("clean-customers", "clean", "extract-customers"))
	f.Add(node("join", "join", "clean-orders", "clean-customers"))
	load := node("load-warehouse", "load", "join", extracts[2])
	load.OnFailure = job.FailureHold
	f.Add(load)
	last := f.Group([]string{"load-warehouse"}, node("report-sales", "report"), node("report-stock", "report"), node("report-with-a-very-long-name-that-is-cut", "report"))
	f.Chain(last, node("publish", "publish"), node("announce", "announce"))
	return f
}

// seedFlows stores flows: a running one with a dead job, a completed one, one that is drawn by type and one that is drawn by layers.
// And it stores limits with jobs that wait for them.
func (s *site) seedFlows() {
	s.t.Helper()
	ctx := context.Background()
	mailing := &job.Flow{ID: "mailing"}
	var sends []job.FlowJob
	for i := range 400 {
		sends = append(sends, node(fmt.Sprintf("send-%d", i), []string{"send:html", "send:text"}[i%2], "list"))
	}
	mailing.Add(node("list", "list"))
	mailing.Add(node("report", "summary", mailing.Group(nil, sends...)...))
	s.storeFlow(mailing)
	s.end("flows", 1, job.KindComplete, "list")
	s.end("flows", 150, job.KindComplete, "send:html")
	s.end("flows", 20, "", "send:text")

	long := &job.Flow{ID: "long"}
	var steps []job.FlowJob
	for i := range 2100 {
		steps = append(steps, node(fmt.Sprintf("step-%d", i), "step"))
	}
	long.Chain(nil, steps...)
	s.storeFlow(long)
	s.end("flows", 1, job.KindComplete, "step")

	s.storeFlow(&job.Flow{ID: "single", Jobs: []job.FlowJob{node("only", "single")}})
	s.end("flows", 1, job.KindComplete, "single")

	s.storeFlow(nightly())
	s.end("flows", 3, job.KindComplete, "extract")
	s.end("flows", 2, job.KindComplete, "clean")
	s.end("flows", 1, job.KindDead, "join")

	store := s.db.Jobs()
	fault := func(err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	fault(store.PublishLimits(ctx, []policy.LimitScope{
		{Queue: "exports", Limits: []policy.JobLimit{{Name: "per-tenant", Key: []string{"meta.tenant"}, Concurrency: 5}}},
		{Type: "invoice:print", Limits: []policy.JobLimit{{Name: "printer", Rate: policy.Rate{Count: 100, Per: time.Minute, Burst: 10}}}},
	}))
	two := &policy.JobLimit{Name: "per-tenant", Key: []string{"meta.tenant"}, Concurrency: 2}
	fault(store.SetLimit(ctx, job.LimitSetting{LimitName: job.LimitName{Queue: "exports", Name: "per-tenant"}, Limit: two}))
	var exports []job.Request
	for i := range 14 {
		exports = append(exports, job.Request{Type: "export:csv", Queue: "exports", Payload: []byte(`{}`), Meta: map[string]string{"tenant": []string{"acme", "acme", "globex"}[i%3]}})
	}
	exports = append(exports, job.Request{Type: "export:csv", Queue: "exports", Payload: []byte(`{}`), Meta: map[string]string{"tenant": "initech"}})
	s.enqueue(exports...)
	s.end("exports", 2, "", "export:csv")
}

// one returns the first job that a filter finds.
func (s *site) one(text string) *job.Record {
	s.t.Helper()
	f, err := job.ParseFilter(text, time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := s.db.Jobs().List(context.Background(), f, "", 1)
	if err != nil || len(list) == 0 {
		s.t.Fatal("no job matches ", text, err)
	}
	return list[0]
}

// node returns a job of a flow.
func (s *site) node(flow, name string) job.FlowNode {
	s.t.Helper()
	list, err := s.db.Jobs().FlowNodes(context.Background(), job.NodeQuery{Flow: flow, Node: name, Limit: 1})
	if err != nil || len(list) != 1 {
		s.t.Fatal("no node ", name, err)
	}
	return list[0]
}

func TestU2FlowsAreListedAndFound(t *testing.T) {
	s := newSite(t, nil)
	s.reads("flows", "No flows yet", "tenet jobs import flow.jsonl")
	s.seedFlows()
	s.reads("flows", "nightly", "mailing", "long", "single", "running", "completed", "Of 12 jobs: 5 completed, 1 dead, 6 left", "tenet flows list")
	if page := s.get("flows?state=completed"); strings.Contains(page, "nightly") || !strings.Contains(page, "single") {
		t.Errorf("not only completed flows: %s", page)
	}
	if page := s.get("flows?id=IGHT"); !strings.Contains(page, "nightly") || strings.Contains(page, "mailing") {
		t.Errorf("not only flows with the part of an ID: %s", page)
	}
	s.reads("flows?id=nothing", "No flow matches")
	for i := range 60 {
		s.storeFlow(&job.Flow{ID: fmt.Sprintf("more-%d", i), Jobs: []job.FlowJob{node("a", "t")}})
	}
	page := s.get("flows")
	_, next, found := strings.Cut(page, `<a class="button" href="/ui/flows?cursor=`)
	if !found || strings.Contains(page, "nightly") {
		t.Fatalf("64 flows on one page: %s", page)
	}
	next, _, _ = strings.Cut(next, `"`)
	has(t, s.get("flows?cursor="+html.UnescapeString(next)), "nightly", "Newest")
	has(t, s.get("flows?id=nightly"), "nightly") // however old it is
}

func TestJ20AFlowIsDrawnWithTheStateOfEachJob(t *testing.T) {
	s := newSite(t, nil)
	s.seedFlows()
	page := s.get("flows/nightly")
	has(t, page, "This flow is running: 5 of 12 jobs have completed, 1 job is dead.", "tenet flows inspect nightly", "12 jobs in 7 layers", "waits for its retry")
	if boxes := strings.Count(page, `class="box box-`); boxes != 12 {
		t.Errorf("%d boxes of 12 jobs", boxes)
	}
	if lines := strings.Count(page, `<path class="line"`); lines != 13 {
		t.Errorf("%d lines of 13 needs", lines)
	}
	for state, n := range map[string]int{"completed": 5, "dead": 1, "cancelled": 0, "waiting": 6} {
		if found := strings.Count(page, "box-"+state+`"`); found != n {
			t.Errorf("%d boxes of %d %s jobs", found, n, state)
		}
	}
	has(t, page, "/ui/jobs/"+s.node("nightly", "join").JobID)

	s.reads("flows/mailing", "a box stands for the jobs of a type in a layer", "200 × send:html", "50 ready, 150 completed", "20 running, 180 ready", "Next page", "list")
	has(t, s.get("flows/mailing?after=400"), "report", "send-0, send-1, send-2, send-3 and 396 more")
	page = s.get("flows/long")
	has(t, page, "a box stands for the jobs of some layers", "layers 1 to 21", "step-0")
	if boxes := strings.Count(page, `class="box box-`); boxes != 100 {
		t.Errorf("%d boxes of a flow of 2,100 layers", boxes)
	}
	has(t, s.refused("flows/none", 404), "flow")
}

func TestU4AFlowIsCancelledAndRetriedWithExactPreviews(t *testing.T) {
	s := newSite(t, nil)
	s.storeFlow(nightly())
	s.end("flows", 1, job.KindComplete, "extract")
	s.end("flows", 1, "", "extract")
	has(t, s.get("do/flows/nightly/cancel"), "Cancel 11 jobs", "This applies to 11 jobs of 12 in flow nightly: 8 waiting, 2 ready, 1 running.", "tenet flows cancel nightly")
	has(t, s.post("do/flows/nightly/cancel?return=/ui/flows/nightly", url.Values{"count": {"11"}, "key": {"k1"}}), "Cancelled 10 jobs. 1 running job is asked to stop.", "This flow is running")
	has(t, s.get("do/flows/nightly/retry"), "Retry 10 jobs")
	has(t, s.post("do/flows/nightly/retry?return=/ui/flows/nightly", url.Values{"count": {"10"}, "key": {"k2"}}), "Retried 10 jobs.")
	has(t, s.get("do/flows/nightly/retry"), "Nothing to retry")
	if n := s.node("nightly", "join"); n.State != job.Waiting {
		t.Errorf("join is %s", n.State)
	}
	s.storeFlow(&job.Flow{ID: "wide", Jobs: func() (list []job.FlowJob) {
		for i := range 1001 {
			list = append(list, node(fmt.Sprint(i), "t"))
		}
		return list
	}()})
	has(t, s.get("do/flows/wide/cancel"), "Type 1,001 to confirm", "1,001 ready")
	has(t, s.post("do/flows/wide/cancel", url.Values{"count": {"1001"}, "typed": {"1000"}, "key": {"k3"}}), "Type the number 1001 to confirm.")
	notice := s.post("do/flows/wide/cancel", url.Values{"count": {"1001"}, "typed": {"1,001"}, "key": {"k4"}})
	if strings.Contains(notice, "Repeat the action for the others.") { // with the race detector the time may be over
		has(t, s.post("do/flows/wide/cancel", url.Values{"count": {"1"}, "key": {"k5"}}), "Cancelled 1 job.")
	} else {
		has(t, notice, "Cancelled 1,001 jobs.")
	}
	has(t, s.get("flows/wide"), "1,001 jobs were cancelled.")
}

func TestU1AFlowIsWatchedLiveAndCancelledByKeyboardAlone(t *testing.T) {
	s := newSite(t, nil)
	s.storeFlow(nightly())
	b := s.tab(t, look{320, 640, true, true})
	b.open("flows/nightly")
	s.end("flows", 1, job.KindComplete, "extract")
	b.wait(`document.querySelectorAll(".box-completed").length === 1`)
	value[bool](b, `document.querySelector(".graph a").focus(); true`)
	b.keys(kb.Tab)
	if at := value[string](b, `document.activeElement.closest("a")?.getAttribute("href") ?? ""`); !strings.HasPrefix(at, "/ui/jobs/") {
		t.Errorf("the second box is not reached by Tab: %s", at)
	}
	b.do(chromedp.Focus(chromedp.CSS(`a[href*="do/flows/nightly/cancel"]`)))
	b.keys(kb.Enter)
	b.wait(`document.querySelector("#dialog").open && document.querySelector("#dialog .danger")`)
	b.accessible("the preview")
	b.do(chromedp.Focus(chromedp.CSS(`#dialog .danger`)))
	b.keys(kb.Enter)
	b.wait(`document.querySelector(".notice")?.textContent.includes("Cancelled 11 jobs.")`)
	b.wait(`document.querySelectorAll(".box-cancelled").length === 11`)
}

func TestJ20AJobShowsTheFlowAroundItAndOutputsWhenAskedFor(t *testing.T) {
	s := newSite(t, nil)
	s.seedFlows()
	join, load := s.node("nightly", "join"), s.node("nightly", "load-warehouse")
	page := s.get("jobs/" + load.JobID)
	has(t, page, "This job waits for 1 job of its flow", "join is dead: this job runs once it has been retried and has completed.", "extract-stock", "report-sales", "/ui/flows/nightly", "Show the outputs of its needs")
	if strings.Contains(page, `<span class="name">rows</span>`) {
		t.Error("an output is shown without asking for it")
	}
	has(t, s.get("jobs/"+load.JobID+"?outputs=show"), "Output of extract-stock", `<span class="name">rows</span>`, "Hide the outputs")
	has(t, s.get("jobs/"+join.JobID), "clean-orders", "clean-customers", "load-warehouse")
}

func TestJ19LimitsAreListedSetAndReset(t *testing.T) {
	s := newSite(t, nil)
	s.reads("limits", "No limits yet", "tenet limits set per-tenant")
	s.seedFlows()
	page := s.get("limits")
	has(t, page, "per-tenant", "queue exports", "2 at a time per meta.tenant", "an operator", "5 at a time per meta.tenant", "meta.tenant:acme", "blocked", "printer", "type invoice:print", "100 per 1 min, burst 10", "tenet limits list")

	at := "name=per-tenant&queue=exports"
	has(t, s.get("do/limits/set?"+at), "In force: 2 at a time per meta.tenant, as an operator has set it", "tenet limits set --queue exports --key meta.tenant --concurrency 2 per-tenant", "places are taken")
	values := func(pairs ...string) url.Values {
		v := url.Values{"fields": {"meta.tenant"}}
		for i := 0; i < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return v
	}
	post := func(path string, v url.Values) string { return html.UnescapeString(s.post(path, v)) }
	has(t, post("do/limits/set?"+at, values("concurrency", "many")), "write a number from 1 to 1,000,000", `value="many"`)
	has(t, post("do/limits/set?"+at, values()), "Write how many jobs run at a time")
	has(t, post("do/limits/set?"+at, values("concurrency", "2", "strict", "true")), "it needs 1 job of a bucket at a time")
	has(t, post("do/limits/set?"+at, url.Values{"fields": {"nonsense"}, "concurrency": {"2"}}), `role="alert"`)
	has(t, post("do/limits/set?return=/ui/limits&"+at, url.Values{"fields": {"meta.tenant"}, "concurrency": {"3"}, "rate": {"10"}, "per": {"1m"}, "key": {"k1"}}), "Limit per-tenant of queue exports is set: 3 at a time, 10 per 1 min, burst 10 per meta.tenant.")
	has(t, s.get("do/limits/reset?"+at), "The limit is then what a worker&#39;s document says: 5 at a time per meta.tenant.", "--reset")
	has(t, post("do/limits/reset?return=/ui/limits&"+at, url.Values{"key": {"k2"}}), "is as documents say")
	has(t, post("do/limits/off?return=/ui/limits&"+at, url.Values{"key": {"k3"}}), "is off")
	has(t, post("do/limits/new?return=/ui/limits", url.Values{"name": {"one"}, "of": {"type"}, "bounds": {"report:build"}, "concurrency": {"1"}, "strict": {"true"}, "key": {"k4"}}), "type report:build", "1 at a time, strict order")
	box := `name="strict" value="true" checked`
	one := "do/limits/set?name=one&type=report:build"
	has(t, s.get(one), box)
	if page := post(one, values("concurrency", "many")); strings.Contains(page, box) {
		t.Error("a box that was cleared is checked again")
	}
	has(t, s.refused("do/limits/set?name=none&queue=exports", 404), "There is no limit of this name")
}

func TestJ19AJobSaysWhichLimitItWaitsForAndWhoHoldsIt(t *testing.T) {
	s := newSite(t, nil)
	s.seedFlows()
	waiting, holder := s.one("state:waiting queue:exports meta.tenant:globex"), s.one("state:ready,running queue:exports meta.tenant:globex")
	has(t, s.get("jobs/"+waiting.ID), "This job waits for limit per-tenant of queue exports: 2 at a time per meta.tenant.", "<code>meta.tenant:globex</code>", "as an operator has set it", "2 of 2", "/ui/jobs/"+holder.ID)
	has(t, s.get(filtered("state:waiting queue:exports")), "waits for limit per-tenant of queue exports, meta.tenant:acme")
	has(t, s.get(filtered("flow:nightly state:waiting")), "waits for jobs of its flow")
}
