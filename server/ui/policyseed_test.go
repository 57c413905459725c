package ui_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// policyPaths lists a path of every page and preview of policy documents.
var policyPaths = map[string]string{
	"policies": "policies", "policy": "policies/shop", "policy-rule": "policies/shop?rule=users.Get", "policy-job": "policies/shop?rule=job%2Fmail.email%3Asend", "policy-text": "policies/shop/text", "policy-proof": "policies/shop/proof", "policy-simulation": "policies/shop/simulation", "policy-simulation-job": "policies/shop/simulation?revision=2&rule=job%2Fmail.email%3Asend&clients=2&trouble=slow", "policy-proof-broken": "policies/search/proof", "policy-revisions": "policies/shop/revisions", "policy-diff": "policies/shop/diff?from=2&to=4",
	"rollout": "policies/shop/rollout", "rollout-ended": "policies/mail/rollout", "rollout-none": "policies/search/rollout", "abort": "do/policies/shop/rollout/abort",
	"trial": "policies/mail/trial", "trial-none": "policies/search/trial", "end-trial": "do/policies/mail/trial/end",
	"mechanisms": "mechanisms", "mechanism": "mechanisms?document=shop&kind=breaker&name=users.Get", "mechanisms-none": "mechanisms?client=nobody",
	"pipelines": "pipelines", "pipelines-none": "pipelines?name=other",
	"clients": "clients?document=shop", "clients-refused": "clients?refused=true", "clients-none": "clients?label=x%3Dy",
	"editor": "do/policies/search/publish", "new-policy": "do/new-policy",
	"freeze": "do/policies/shop/freeze", "rollback": "do/policies/mail/rollback/2",
}

const shopText = `version: 1
defaults:
  calls:
    retry: {max_attempts: 3, backoff: 50ms, backoff_cap: 2s}
  jobs:
    retry: {backoff_cap: 10m}
budgets:
  shared-api: {kind: retry_ratio, ratio: 0.2, burst: 10}
policies:
  users.Get:
    id: users-1
    # The gateway gives up after two seconds.
    retry: {max_attempts: %d, timeout: 300ms, overall_timeout: 2s, budget: {name: shared-api}}
    hedge: {enabled: true, trigger: p95, delay: 200ms, max_extra_load: 0.02}
    circuit: {kind: rate, failure_rate: 0.5, minimum_calls: 20}
  search.Query:
    retry: {jitter: decorrelated, max_attempts: 6}
  events.Publish:
    category: NATS_PUBLISH
queues:
  mail: {concurrency: 20, retry: {max_attempts: 15, backoff: 1s}}
jobs:
  "email:send": {timeout: 30s, budget: {name: shared-api}}
consumers:
  orders:
    loop: {batch: {size: 100}, concurrency: {value: 10}, streaming: true}
    steps: {process: {retry: {max_attempts: 3, backoff: 200ms, timeout: 5.0}}}
`

// searchText holds violations of severity warning, one of which it accepts.
const searchText = `version: 1
policies:
  search.Query:
    retry: {max_attempts: 4, timeout: 5s, overall_timeout: 2s}
    hedge: {enabled: true, trigger: p95, delay: 200ms}
budgets:
  spare: {kind: retry_ratio, ratio: 0.2, burst: 10}
prove:
  suppress:
    - {code: budget-never-binds, path: budgets.spare, reason: the next release uses it}
`

// api returns a client of the site's API.
func (s *site) api() *client.Client {
	s.t.Helper()
	c, err := client.New(client.Options{URL: s.http.URL})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// publish publishes a text as a document's next revision.
func (s *site) publish(name string, base int64, text, message string, plan *api.Plan) {
	s.t.Helper()
	in := api.Publish{Body: text, Message: message, AcceptWarnings: true, Rollout: plan}
	if _, err := s.api().Documents().Publish(s.t.Context(), client.Target{Name: name, Base: base}, in); err != nil {
		s.t.Fatal(err)
	}
}

// seedPolicies publishes a document with a rollout at its second step, one whose rollout was taken back, and a frozen one,
// all with clients.
func (s *site) seedPolicies() {
	s.t.Helper()
	ctx, store := context.Background(), s.db.Policies()
	for base := range int64(4) {
		s.publish("shop", base, fmt.Sprintf(shopText, base+2), fmt.Sprintf("users.Get: %d attempts", base+2), nil)
	}
	steps := []api.Step{{Share: 0.01}, {Share: 0.1}, {Share: 0.5}, {Share: 1}}
	s.publish("shop", 4, fmt.Sprintf(shopText, 7), "more attempts for users.Get", &api.Plan{Steps: steps})
	shop := s.document("shop")
	shop.Rollout.Step, shop.Rollout.StepStarted = 1, policystore.Stamp(time.Now().Add(-3*time.Minute))
	shop.Rollout.Judgement = &rollout.Judgement{Verdict: rollout.Advance, Reason: rollout.ReasonHarmless}
	s.save(shop)
	base, candidate := counters(5800, 0.011, 29), counters(640, 0.010, 3)
	s.evidence(shop, 0, counters(9000, 0.012, 31), counters(1200, 0.011, 2))
	s.evidence(shop, 1, base, candidate)

	s.publish("mail", 0, "version: 1\njobs: {\"email:send\": {retry: {max_attempts: 5}}}\n", "first", nil)
	s.publish("mail", 1, "version: 1\njobs: {\"email:send\": {retry: {max_attempts: 9}, timeout: 1s}}\n", "a timeout of one second", &api.Plan{Steps: steps[1:]})
	mail := s.document("mail")
	bad := rollout.Observation{Elapsed: time.Minute, Base: counters(8000, 0.01, 40), Candidate: counters(900, 0.2, 5)}
	s.evidence(mail, 0, bad.Base, bad.Candidate)
	judgement := rollout.Judge(mail.Rollout.Plan, bad)
	if judgement.Verdict != rollout.Revert {
		s.t.Fatalf("the seed is not harmful: %+v", judgement)
	}
	before, err := store.Revision(ctx, "mail", 1)
	if err != nil {
		s.t.Fatal(err)
	}
	before.Number, before.Restores, before.Parent, before.Author, before.Created = 3, 1, 1, "tenet", policystore.Stamp(time.Now())
	before.Message = "rollout of revision 2 reverted: failures"
	mail.Rollout.State, mail.Rollout.Ended, mail.Rollout.Judgement = policystore.Reverted, before.Created, &judgement
	mail.Newest, mail.Current = 3, 3
	s.save(mail, before)
	if _, err := s.api().Documents().Publish(ctx, client.Target{Name: "mail", Base: 3}, api.Publish{
		Body: "version: 1\njobs: {\"email:send\": {retry: {max_attempts: 7}}}\n", Message: "seven attempts, on trial", Trial: true,
	}); err != nil {
		s.t.Fatal(err)
	}

	s.publish("search", 0, searchText, "first", nil)
	if err := s.api().Do(ctx, client.Call{Method: http.MethodPut, Path: "/v1/documents/search/freeze", Body: api.Freeze{Reason: "no changes before the sale"}, Once: true}, nil); err != nil {
		s.t.Fatal(err)
	}
	s.seedClients()
}

func (s *site) seedClients() {
	s.t.Helper()
	now := time.Now()
	var list []policystore.Client
	for i := range 60 {
		c := policystore.Client{
			Document: "shop", ID: fmt.Sprintf("web-%02d", i), Labels: map[string]string{"region": []string{"eu", "us"}[i%2], "app": "web"},
			Desired: 4, Delivered: 4, Applied: 4, LastSeen: policystore.Stamp(now.Add(-time.Duration(i) * time.Second)), Staleness: time.Duration(i) * 100 * time.Millisecond,
		}
		switch {
		case i == 0:
			c.Reported = &policystore.Reported{Mechanisms: []policystore.Mechanism{
				{Kind: "breaker", Name: "users.Get", State: "open", Since: now.Add(-4 * time.Second), Openings: 3, Refusals: 412},
				{Kind: "budget", Name: "shared-api", State: "exhausted", Since: now.Add(-90 * time.Second), Refusals: 96},
				{Kind: "limit", Name: "search.Query", State: "available", Since: now.Add(-10 * time.Minute), Refusals: 2},
			}, Pipelines: []policystore.Pipeline{
				{Kind: "consumer", Name: "orders", Source: "rabbitmq", Sink: "pgpipe", Begun: now.Add(-time.Hour), Rate: 41.5, Fetched: 120_412, Success: 119_800, Exception: 402, Failed: 3, Redelivered: 7, Retries: 1_044, InFlight: 10, Lag: 3_207, LagKnown: true},
				{Kind: "producer", Name: "invoices", Sink: "httpsink", Begun: now.Add(-2 * time.Hour), Ended: true, Fetched: 500, Success: 500},
			}}
			fallthrough
		case i < 6:
			if i > 0 {
				c.Reported = &policystore.Reported{Mechanisms: []policystore.Mechanism{
					{Kind: "breaker", Name: "users.Get", State: []string{"closed", "open", "half_open"}[i%3], Since: now.Add(-time.Duration(i) * time.Minute), Openings: 1, Refusals: int64(40 * i)},
				}}
			}
			c.Desired, c.Delivered, c.Applied = 5, 5, 5
		case i == 6:
			c.Desired, c.Delivered, c.Refused, c.Reason = 5, 5, 5, "policies.users.Get.retry.max_attempts: 7 is above the limit of 5"
		case i == 7:
			c.LastSeen = policystore.Stamp(now.Add(-3 * time.Hour))
		}
		list = append(list, c)
	}
	for i := range 3 {
		c := policystore.Client{Document: "mail", ID: fmt.Sprintf("worker-%d", i+1), Desired: 3, Delivered: 3, Applied: 3, LastSeen: policystore.Stamp(now)}
		c.Reported = &policystore.Reported{Trial: &rollout.Trial{Revision: 4, Decisions: 4_217, Divergences: []rollout.Divergence{
			{Key: "mail.email:send", Reason: "attempts_exhausted", Trial: "retry", Count: 311}, {Key: "mail.email:send", Reason: "retry", Trial: "retry", Count: 57},
		}}}
		if i == 2 {
			c.Reported.Trial = &rollout.Trial{Revision: 4, Refused: "unknown field \"jitters\""}
		}
		list = append(list, c)
	}
	if err := s.db.Policies().SaveClients(context.Background(), list); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) document(name string) policystore.Document {
	s.t.Helper()
	d, err := s.db.Policies().Document(context.Background(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *site) save(d policystore.Document, add ...policystore.Revision) {
	s.t.Helper()
	if _, err := s.db.Policies().Save(context.Background(), d, add...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) evidence(d policystore.Document, step int, base, candidate rollout.Counters) {
	s.t.Helper()
	err := s.db.Policies().AddEvidence(context.Background(), []policystore.Evidence{
		{Rollout: d.Rollout.ID, Step: step, Revision: d.Rollout.Base, Counters: base},
		{Rollout: d.Rollout.ID, Step: step, Revision: d.Rollout.Candidate, Counters: candidate},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// counters are those of calls of which a share fails, spread over some clients. They are the same each time.
func counters(calls int, failing float64, clients int) (sum rollout.Counters) {
	random := rand.New(rand.NewPCG(uint64(calls), uint64(clients)))
	for range clients {
		var c rollout.Counters
		for range calls / clients {
			failed := random.Float64() < failing
			extra := 0
			if random.Float64() < 0.05 {
				extra = 1
			}
			c.Observe(time.Duration(20+random.ExpFloat64()*15)*time.Millisecond, extra, failed)
		}
		sum.AddClient(c)
	}
	return sum
}

func TestU2DocumentsAreListedWithTheirState(t *testing.T) {
	s := newSite(t, nil)
	s.reads("policies", "No documents yet")
	s.seedPolicies()
	s.reads("policies", "shop", "revision 5: step 2 of 4", "frozen", "refused by 1")
	s.reads("policies/shop", "other types in queue mail", "default, line 4", "catalog NATS_PUBLISH", "budget shared-api", "built in")
	s.reads("policies/shop?revision=2", "tenet policy get shop --revision 2")
	s.reads("policies/shop?rule=users.Get", "policies.users.Get.retry.max_attempts", "Wait before each retry", "overall timeout 2 s", "text?revision=4#L13")
	s.reads("policies/shop/rollout", "Step 2 of 4: 10 % of clients get revision 5 since", "waiting for 1,000 calls under the new revision, 639 so far")
	s.reads("policies/shop/proof", "tenet policy get shop", "policies/shop/simulation?revision=4")
	s.reads("policies/shop/simulation", "From 1 min to 1 min 30 s: 50 % of requests fail.", "attempts/call", "tenet policy get shop --revision 4 &gt; shop.yaml &amp;&amp; tenet simulate scenario.yaml --policy shop.yaml --html report.html")
	s.reads("policies/shop/simulation?revision=2&rule=users.Get&trouble=down", "it refuses all requests", "refuses requests", "Revision 2", "Revision 4, in force")
	s.reads("policies/shop/simulation?rule=job%2Fmail.email%3Asend&clients=2&trouble=slow", "peak backlog", "Unfinished jobs", "latency × 5", "email:send")
	s.reads("policies/shop/simulation?rate=many", "Calls or jobs per second: write a number above 0.")
	s.reads("policies/shop/simulation?latency=long", "expected a duration")
	s.reads("policies/mail/rollout", "Revision 2 was taken back at step 1 of 3", "Failed calls: 20 % instead of 0.9 %")
	s.reads("policies/search/rollout", "No rollout yet")
	s.reads("policies/mail/trial", "evaluated by 2 clients beside revision 3", "1 client cannot use it: unknown field", "736 of 8,434 decisions differ: 8.7 %", "622", "after another delay", "Put revision 4 in force", "tenet policy trial show mail")
	s.reads("policies/mail/revisions", "trial", "seven attempts, on trial")
	s.reads("do/policies/mail/rollback/4", "Put revision 4 of mail in force?", "Its trial ends.")
	s.reads("policies/search/trial", "No revision is under trial", "--trial")
	s.reads("mechanisms", "open in 3 of 6 clients", "exhausted in 1 of 1 client", "available again", "1,012", "tenet clients mechanisms")
	s.reads("mechanisms?document=shop&kind=breaker&name=users.Get&state=half_open", "web-02", "web-05", "half_open", "--state half_open")
	if page := s.get("mechanisms?name=users.Get&state=half_open"); strings.Contains(page, "web-01") {
		s.t.Errorf("a client whose breaker is open: %s", page)
	}
	s.reads("mechanisms?client=nobody", "Nothing matches")
	s.reads("pipelines", "orders", "rabbitmq → pgpipe", "3,207", "41.5/s", "120,412", "1,044", "running", "ended", "tenet clients pipelines")
	if page := s.get("pipelines?kind=producer&document=shop"); strings.Contains(page, "orders") || !strings.Contains(page, "invoices") {
		s.t.Errorf("not only producers: %s", page)
	}
	s.reads("pipelines?name=other", "No pipeline matches")
	s.reads("clients", "web-00", "worker-1", "Next page")
	s.reads("clients?document=shop&refused=true", "web-06", "7 is above the limit of 5", "tenet clients list --document shop --refused")
	s.reads("clients?document=shop&revision=5&label=region%3Deu", "web-04")
	if page := s.get("clients?document=shop&revision=5&label=region%3Deu"); strings.Contains(page, "web-05") || strings.Contains(page, "web-08") {
		s.t.Errorf("clients that do not match: %s", page)
	}
	s.reads("policies/shop/text", "revision 4", "max_attempts: 5", "The gateway gives up")
	s.reads("policies/shop/text?revision=2", "max_attempts: 3")
	s.reads("policies/shop/proof", "properties hold", "load-factor", "tenet policy get shop | tenet policy prove - --all")
	s.reads("policies/search/proof", "timeout-unreachable", "lower the timeout of an attempt", "decision.Judge, attempt 1, at 2s", "the next release uses it", "policies/search/text?revision=1#L4")
	s.reads("policies/shop/revisions", "users.Get: 4 attempts", "in force")
	s.reads("policies/mail/revisions", "restores 1", "reverted: failures")
	s.reads("policies/shop/diff?from=2&to=4", "policies.users.Get.retry.max_attempts", "<del>3</del>", "<ins>5</ins>", "tenet policy compare shop 2 4",
		"tenet policy diff shop@2 shop@4 --audit server:", "do/audit/replay?document=shop%404")
	s.reads("do/audit/replay?document=shop%404", "<option>shop</option>", `value="shop@4"`, "--what-if server:URL/shop@4")
}

// reads fails the test unless a page holds texts.
func (s *site) reads(path string, texts ...string) {
	s.t.Helper()
	page := s.get(path)
	for _, text := range texts {
		if !strings.Contains(page, text) {
			s.t.Errorf("%s: no %s in\n%s", path, strconv.Quote(text), page)
		}
	}
}
