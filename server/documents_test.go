package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/documents"
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
	if r := e.get("/v1/audit/events"); strings.Count(r.body, `"action":"documents.publish"`) != 5 { // the refused one, and that it was
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

func TestS1ATextIsCheckedWithoutPublishingIt(t *testing.T) {
	e := newEnv(t, nil)
	check := func(text string) (c api.Checked) {
		t.Helper()
		e.do(call{method: http.MethodPost, path: "/v1/documents/pay/check", body: api.Check{Body: text}}).into(t, &c)
		return c
	}
	if c := check(fmt.Sprintf(documentText, 3)); c.Revision != 1 || c.Base != 0 || len(c.Hash) != 64 || len(c.Faults)+len(c.Warnings) != 0 {
		t.Errorf("a first text: %+v", c)
	}
	e.do(call{method: http.MethodPost, path: "/v1/documents/pay/revisions", body: api.Publish{Body: fmt.Sprintf(documentText, 3)}, header: map[string]string{"If-Match": "*"}})
	if c := check(fmt.Sprintf(documentText, 4)); c.Revision != 2 || c.Base != 1 || len(c.Fields) != 1 || !strings.Contains(c.Text, "+policies: {pay.Charge: {retry: {max_attempts: 4}}}") {
		t.Errorf("a change: %+v", c)
	}
	if c := check(fmt.Sprintf(documentText, 50)); len(c.Warnings) != 1 || c.Warnings[0].Line != 2 || len(c.Faults) != 0 {
		t.Errorf("above a limit: %+v", c)
	}
	if c := check(fmt.Sprintf(documentText, 0)); len(c.Faults) != 1 || c.Faults[0].Line != 2 || c.Faults[0].Column == 0 || c.Hash != "" {
		t.Errorf("a fault: %+v", c)
	}
	if r := e.get("/v1/documents/pay"); r.header.Get("ETag") != `"1"` {
		t.Errorf("a check published something: %v", r.header)
	}
}

func TestP12RulesSayWhereTheirValuesComeFrom(t *testing.T) {
	e := newEnv(t, nil)
	text := "version: 1\ndefaults: {calls: {retry: {backoff: 50ms}}}\nbudgets: {shared: {kind: retry_ratio, ratio: 0.3}}\npolicies:\n" +
		"  pay.Charge: {retry: {max_attempts: 50, budget: {name: shared}}}\n  pay.Send: {category: NATS_PUBLISH}\n" +
		"queues: {mail: {concurrency: 7}}\nconsumers: {orders: {loop: {batch: {size: 5}}}}\n"
	e.do(call{method: http.MethodPost, path: "/v1/documents/pay/revisions", body: api.Publish{Body: text, AcceptWarnings: true}, header: map[string]string{"If-Match": "*"}})
	values := func(rule string) string {
		t.Helper()
		var page api.Rules
		e.get("/v1/documents/pay/revisions/1/rules?rule="+rule).into(t, &page)
		if len(page.Rules) != 1 {
			t.Fatalf("%s: %d rules", rule, len(page.Rules))
		}
		var b strings.Builder
		for _, v := range page.Rules[0].Values {
			fmt.Fprintf(&b, "%s=%s %s:%d %s %v;", v.Field, v.Text, v.Path, v.Line, v.Category, v.Clamped)
		}
		return b.String()
	}
	for rule, want := range map[string][]string{
		"pay.Charge": {"retry.max_attempts=10 policies.pay.Charge.retry.max_attempts:5  true", "retry.backoff=50ms defaults.calls.retry.backoff:2  false", "retry.jitter=full :0  false"},
		"pay.Send":   {"retry.timeout=5s :0 NATS_PUBLISH false", "retry.jitter=proportional :0 NATS_PUBLISH false"},
		"*":          {"retry.max_attempts=3 :0  false", "retry.backoff=50ms defaults.calls.retry.backoff:2"},
		"shared":     {"ratio=0.3 budgets.shared.ratio:3", "burst=10 :0"},
		"mail":       {"concurrency=7 queues.mail.concurrency:7"},
		"orders":     {"batch.size=5 consumers.orders.loop.batch.size:8"},
	} {
		for _, text := range want {
			if got := values(rule); !strings.Contains(got, text) {
				t.Errorf("%s: no %q in %s", rule, text, got)
			}
		}
	}
	seen := 0
	for next := ""; ; {
		var page api.Rules
		e.get("/v1/documents/pay/revisions/1/rules?limit=4&cursor="+next).into(t, &page)
		if seen += len(page.Rules); page.Next == "" {
			break
		}
		next = string(page.Next)
	}
	if seen != 2+1+1+1+4+1+3 { // calls, other calls, the queue's other types, other jobs, steps, other steps, and the values outside policies
		t.Errorf("%d rules", seen)
	}
}

func TestS3ClientsAreFilteredAndPaged(t *testing.T) {
	e := newEnv(t, nil)
	var list []policystore.Client
	for i := range 50 {
		c := policystore.Client{
			Document: "pay", ID: fmt.Sprintf("c%02d", i), Labels: map[string]string{"region": []string{"eu", "us"}[i%2]}, Desired: 2, Applied: int64(1 + i%5/4),
			Staleness: 1500 * time.Millisecond, LastSeen: policystore.Stamp(time.Now()),
		}
		if i == 7 {
			c.Refused, c.Reason = 2, "no"
		}
		list = append(list, c)
	}
	if err := e.options.Policies.SaveClients(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"document=pay&revision=2&label=region%3Deu": "c04 c14 c24 c34 c44", "refused=true": "c07", "label=region": "", "document=other": "",
	} {
		var got []string
		for next := ""; ; {
			var page api.Clients
			r := e.get("/v1/clients?limit=3&cursor=" + next + "&" + query)
			if r.into(t, &page); r.status != 200 {
				t.Fatalf("%s: %d %s", query, r.status, r.body)
			}
			for _, c := range page.Clients {
				got = append(got, c.ID)
				if c.StalenessSeconds != 1.5 {
					t.Errorf("%+v", c)
				}
			}
			if next = string(page.Next); next == "" {
				break
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
}

func TestU2MechanismsAreFilteredPagedAndSummedUp(t *testing.T) {
	e := newEnv(t, nil)
	now := time.Now()
	var list []policystore.Client
	for i := range 40 {
		breaker := policystore.Mechanism{Kind: "breaker", Name: "users.Get", State: []string{"closed", "open", "half_open", "open"}[i%4], Since: now.Add(-time.Duration(i) * time.Second), Openings: 2, Refusals: int64(i)}
		budget := policystore.Mechanism{Kind: "budget", Name: "shared", State: []string{"exhausted", "available"}[i%2], Since: now, Refusals: 1}
		list = append(list, policystore.Client{
			Document: []string{"pay", "shop"}[i/20], ID: fmt.Sprintf("c%02d", i), LastSeen: now, Reported: &policystore.Reported{Mechanisms: []policystore.Mechanism{budget, breaker}},
		})
	}
	gone := policystore.Client{Document: "pay", ID: "gone", LastSeen: now.Add(-time.Hour), Reported: list[0].Reported}
	if err := e.options.Policies.SaveClients(t.Context(), append(list, gone)); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		"": 80, "document=pay": 40, "kind=budget": 40, "state=open": 20, "document=shop&kind=breaker&name=users.Get&state=closed": 5, "client=c07": 2, "client=gone": 0, "name=other": 0,
	} {
		seen, totals := map[string]bool{}, 0
		for next := ""; ; {
			var page api.Mechanisms
			r := e.get("/v1/mechanisms?limit=7&cursor=" + next + "&" + query)
			if r.into(t, &page); r.status != 200 {
				t.Fatalf("%s: %d %s", query, r.status, r.body)
			}
			for _, m := range page.Mechanisms {
				seen[m.Document+" "+m.Client+" "+m.Kind+" "+m.Name] = true
			}
			totals += len(page.Totals)
			if next = string(page.Next); next == "" {
				break
			}
			if len(page.Mechanisms) != 7 {
				t.Errorf("%s: a page of %d with a next page", query, len(page.Mechanisms))
			}
		}
		if len(seen) != want || totals > 4 {
			t.Errorf("%s: %d mechanisms and %d totals, want %d", query, len(seen), totals, want)
		}
	}
	var page api.Mechanisms
	e.get("/v1/mechanisms?document=pay&state=closed").into(t, &page)
	first := page.Totals[0]
	if got := first.Since.Sub(now).Round(time.Second); first.Since.IsZero() || got != -19*time.Second {
		t.Errorf("since %v, want that of the oldest open breaker", got)
	}
	first.Since = time.Time{}
	want := []api.MechanismTotal{
		{Document: "pay", Kind: "breaker", Name: "users.Get", Clients: 20, Open: 10, HalfOpen: 5, Openings: 40, Refusals: 190}, {Document: "pay", Kind: "budget", Name: "shared", Clients: 20, Exhausted: 10, Refusals: 20},
	}
	page.Totals[1].Since = time.Time{}
	if diff := cmp.Diff(want, []api.MechanismTotal{first, page.Totals[1]}); diff != "" {
		t.Error(diff)
	}
	for _, query := range []string{"kind=fuse", "state=broken", "cursor=x", "limit=0"} {
		if r := e.get("/v1/mechanisms?" + query); r.status != 422 && r.status != 400 {
			t.Errorf("%s: %d", query, r.status)
		}
	}
}

// TestS6TheLogTellsTheChangesOfADocumentFromThoseThatWereRefused: each record is made before the change, which may then be refused.
func TestS6TheLogTellsTheChangesOfADocumentFromThoseThatWereRefused(t *testing.T) {
	e := newEnv(t, nil)
	publish := api.Publish{Body: "version: 1\n"}
	for i, c := range []struct {
		method, path string
		body         any
		status       int
		records      []string // from, to and detail of each
	}{
		{"POST", "revisions", api.Publish{Body: "version: 1\npolicie: {}\n"}, 422, []string{"revision 0>sha256:>", "revision 0>sha256:>refused: the document is not valid"}},
		{"POST", "revisions", publish, 200, []string{"revision 0>sha256:>"}},
		{"POST", "rollout/pause", nil, 409, []string{"no rollout>paused>", "no rollout>paused>refused: no such rollout"}},
		{"DELETE", "trial", nil, 409, []string{"no trial>no trial>", "no trial>no trial>refused: "}},
		{"PUT", "freeze", api.Freeze{Reason: "fair"}, 200, []string{"open>frozen>fair"}},
		{"POST", "revisions", publish, 409, []string{"revision 1>sha256:>", `revision 1>sha256:>refused: document "shop" is frozen`}},
		{"DELETE", "freeze", nil, 200, []string{"frozen by token:>open>"}},
		{"POST", "rollback", api.Rollback{To: 9}, 404, []string{"revision 1>the content of revision 9>", "revision 1>the content of revision 9>refused: "}},
	} {
		before := len(e.actions())
		header := map[string]string{"If-Match": "*", "Idempotency-Key": strconv.Itoa(i)}
		if r := e.do(call{method: c.method, path: "/v1/documents/shop/" + c.path, body: c.body, header: header}); r.status != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, r.status, r.body)
		}
		found := e.actions()[before:]
		if len(found) != len(c.records) {
			t.Errorf("%s %s: %d records, want %d: %+v", c.method, c.path, len(found), len(c.records), found)
			continue
		}
		for j, want := range c.records {
			parts := strings.SplitN(want, ">", 3)
			if a := found[j]; !strings.HasPrefix(a.From, parts[0]) || !strings.HasPrefix(a.To, parts[1]) || !strings.HasPrefix(a.Detail, parts[2]) || parts[2] == "" && a.Detail != "" {
				t.Errorf("%s %s: record %q to %q, %q; want %s", c.method, c.path, a.From, a.To, a.Detail, want)
			}
		}
	}
}

func TestS6TheLogNamesTheSigningKeysBeforeAndAfterARotation(t *testing.T) {
	e := newEnv(t, nil)
	var before, after api.SigningKey
	e.get("/v1/signing-key").into(t, &before)
	e.do(call{method: "POST", path: "/v1/signing-key/rotate", header: map[string]string{"Idempotency-Key": "k"}}).into(t, &after)
	found := e.actions()
	if len(found) != 1 || before == after || found[0].From != before.PublicKey || found[0].To != after.PublicKey {
		t.Errorf("from %v to %v: %+v", before, after, found)
	}
}

// TestS4WhoeverHasTheNewSigningKeyCanUseItAtOnce: a program that trusts only the new key refuses what the old one has signed.
func TestS4WhoeverHasTheNewSigningKeyCanUseItAtOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go e.server.hub.Run(ctx)
		e.do(call{method: "POST", path: "/v1/documents/shop/revisions", body: api.Publish{Body: fmt.Sprintf(documentText, 3)}, header: map[string]string{"If-Match": "*"}})
		synctest.Wait()
		var before, after protocol.Envelope
		var rotated api.SigningKey
		e.get("/v1/documents/shop/live").into(t, &before)
		e.do(call{method: "POST", path: "/v1/signing-key/rotate", header: map[string]string{"Idempotency-Key": "k"}}).into(t, &rotated)
		e.get("/v1/documents/shop/live").into(t, &after)
		if key := protocol.FormatKey(after.Key); len(before.Key) == 0 || key != rotated.PublicKey {
			t.Errorf("the document was signed with %s and is signed with %s; the new key is %s", protocol.FormatKey(before.Key), key, rotated.PublicKey)
		}
	})
}

// pausing is a store whose rollout somebody pauses while it is judged.
type pausing struct{ policystore.Store }

func (p pausing) Evidence(ctx context.Context, rollout string) ([]policystore.Evidence, error) {
	found, err := p.Store.Evidence(ctx, rollout)
	_, paused := documents.New(p.Store, nil).Pause(ctx, "shop", 0)
	return found, errors.Join(err, paused)
}

// TestS6TheLogSaysThatAJudgementDidNotTakeEffect: somebody has changed the document meanwhile.
func TestS6TheLogSaysThatAJudgementDidNotTakeEffect(t *testing.T) {
	inBubble(t, func(o *Options) { o.Policies = pausing{o.Policies} }, func(t *testing.T, e *env) {
		store := e.options.Policies.(pausing).Store
		docs := documents.New(store, nil)
		if _, err := docs.Publish(t.Context(), documents.Change{Name: "shop"}, []byte("version: 1\n"), false); err != nil {
			t.Fatal(err)
		}
		second := documents.Change{Name: "shop", Base: 1, Plan: &rollout.Plan{Steps: []rollout.Step{{Share: 0.5, Hold: time.Minute}}}}
		p, err := docs.Publish(t.Context(), second, []byte("version: 1\nqueues: {mail: {}}\n"), false)
		if err != nil {
			t.Fatal(err)
		}
		for revision, failed := range []int{1: 0, 2: 500} {
			var group, client rollout.Counters
			for i := range 1000 {
				client.Observe(time.Millisecond, 0, i < failed)
			}
			for range 40 {
				group.AddClient(client)
			}
			if err := store.AddEvidence(t.Context(), []policystore.Evidence{{Rollout: p.Document.Rollout.ID, Revision: int64(revision), Counters: group}}); err != nil {
				t.Fatal(err)
			}
		}
		stop := e.works()
		time.Sleep(time.Minute)
		stop()
		found := e.actions()
		if len(found) != 2 || found[0].Action != "rollouts.judge" || found[0].To != string(rollout.Revert) || found[1].Detail != "refused: the document has changed" {
			t.Errorf("%+v", found)
		}
	})
}

// actions are the records of operators' actions.
func (e *env) actions() (list []audit.Event) {
	e.t.Helper()
	for line := range strings.Lines(e.get("/v1/audit/events?type=operator_action").body) {
		var found struct{ Event *audit.Event }
		if err := json.Unmarshal([]byte(line), &found); err != nil {
			e.t.Fatal(err)
		}
		if found.Event != nil {
			list = append(list, *found.Event)
		}
	}
	return list
}
