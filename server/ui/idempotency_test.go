package ui_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// begin claims a key and returns the claim. With a lease of a microsecond the claim has lapsed at once.
func (s *site) begin(id idempotency.ID, lease time.Duration) idempotency.Claim {
	s.t.Helper()
	b, err := s.db.Idempotency().Begin(context.Background(), idempotency.BeginRequest{ID: id, Fingerprint: "f", Owner: "host-1", Lease: lease})
	if err != nil || b.Verdict != idempotency.Run {
		s.t.Fatal(b.Verdict, err)
	}
	return b.Record.Claim()
}

// settle ends a claim.
func (s *site) settle(c idempotency.Claim, settlement idempotency.Settlement) {
	s.t.Helper()
	settlement.TTL = time.Hour
	if err := s.db.Idempotency().Settle(context.Background(), c, settlement); err != nil {
		s.t.Fatal(err)
	}
}

// seedRecords stores records of every state.
func (s *site) seedRecords() {
	s.t.Helper()
	charge := func(key string) idempotency.ID {
		return idempotency.ID{Tenant: "acme", Operation: "charge", Key: key}
	}
	s.settle(s.begin(charge("invoice-1"), time.Minute), idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: []byte(`{"charge": "ch_s3cret", "amount": 1200}`)})
	s.settle(s.begin(charge("invoice-2"), time.Minute), idempotency.Settlement{State: idempotency.Failed, Failure: &idempotency.Failure{Type: "card", Message: "card declined"}})
	s.begin(charge("invoice-3"), time.Hour)
	s.begin(charge("invoice-4"), time.Microsecond)
	lapsed := idempotency.ID{Operation: "email:send", Key: "0198c2f3-0000-7000-8000-000000000000"}
	s.begin(lapsed, time.Microsecond)
	if b, err := s.db.Idempotency().Begin(context.Background(), idempotency.BeginRequest{ID: lapsed, Fingerprint: "f", Owner: "host-2", Lease: time.Minute}); err != nil || b.Verdict != idempotency.Undecidable {
		s.t.Fatal(b.Verdict, err)
	}
}

const invoice4 = "tenant_id=acme&operation=charge&key=invoice-4"

func (s *site) record(key string) idempotency.Record {
	s.t.Helper()
	r, err := s.db.Idempotency().Get(context.Background(), idempotency.ID{Tenant: "acme", Operation: "charge", Key: key})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// claim returns the tag of a record's claim.
func (s *site) claim(key string) string {
	s.t.Helper()
	r := s.record(key)
	return api.ClaimTag(r.Claim())
}

func TestU2RecordsAreSearchedByNameAndState(t *testing.T) {
	s := newSite(t, nil)
	has(t, s.get("idempotency"), "No records yet")
	s.seedRecords()
	page := s.get("idempotency")
	has(t, page, "Outcomes to resolve", "All records", "Remove expired records")
	unknown, all, _ := strings.Cut(page, "All records")
	for key, want := range map[string]bool{"invoice-1": false, "invoice-3": false, "invoice-4": true, "0198c2f3": true} {
		if got := strings.Contains(unknown, key); got != want {
			t.Errorf("%s among the outcomes to resolve: %v", key, got)
		}
		if !strings.Contains(all, key) {
			t.Errorf("%s is not among all records", key)
		}
	}
	for query, want := range map[string]string{
		"state=failed": "invoice-2", "state=unknown": "invoice-4 0198c2f3", "operation=email%3Asend": "0198c2f3", "tenant_id=acme": "invoice-1 invoice-2 invoice-3 invoice-4",
		"tenant_id=acme&operation=charge&key=invoice-3": "invoice-3", "key=invoice-3": "", "tenant_id=acme&operation=charge&key=invoice-3&state=failed": "", "tenant_id=acme&operation=charge&key=invoice-4&state=unknown": "invoice-4",
	} {
		page, found := s.get("idempotency?"+query), ""
		for _, key := range []string{"invoice-1", "invoice-2", "invoice-3", "invoice-4", "0198c2f3"} {
			if strings.Contains(page, `class="mono short" href="/ui/idempotency/record?key=`+key) {
				found += " " + key
			}
		}
		if found = strings.TrimSpace(found); found != want {
			t.Errorf("%s: %q; want %q", query, found, want)
		}
	}
	has(t, s.get("idempotency?key=invoice-3"), "No record matches", "tenet idempotency get invoice-3")
	s.begin(idempotency.ID{Key: "lapsed"}, time.Microsecond)
	for query, want := range map[string]bool{"state=in_flight": false, "state=in_flight&key=lapsed": false, "state=unknown": true, "state=unknown&key=lapsed": true} {
		if got := strings.Contains(s.get("idempotency?"+query), "record?key=lapsed"); got != want {
			t.Errorf("the lapsed claim under %s: %v", query, got)
		}
	}
}

func TestU5AResultIsHiddenUntilAskedFor(t *testing.T) {
	s := newSite(t, nil)
	s.seedRecords()
	const path = "idempotency/record?tenant_id=acme&operation=charge&key=invoice-1"
	reader := s.as(s.token(policystore.Token{Name: "reader", Scopes: []policystore.Scope{policystore.ScopeRead}}))
	operator := s.as(s.token(policystore.Token{Name: "operator", Scopes: []policystore.Scope{policystore.ScopeRead, policystore.ScopeOperate}}))
	for _, page := range []string{reader.get(path), operator.get(path), reader.refused(path+"&result=show", http.StatusForbidden)} {
		if strings.Contains(page, "ch_s3cret") {
			t.Errorf("the result shows up in\n%s", page)
		}
	}
	has(t, reader.get(path), "you need the scope operate", "39 B")
	has(t, operator.get(path+"&result=show"), "ch_s3cret", "Hide the result")
	bound := s.as(s.token(policystore.Token{Name: "bound", Scopes: []policystore.Scope{policystore.ScopeRead, policystore.ScopeOperate}, Queues: []string{"mail"}}))
	has(t, bound.refused("idempotency", http.StatusForbidden), "bound to the queues mail")
}

func TestU2AResultThatBeginsLikeJSONIsShownWhole(t *testing.T) {
	s := newSite(t, nil)
	for key, result := range map[string]string{"date": "2026-11-27", "count": "12 files copied", "lines": `{"file":1}` + "\n" + `{"file":2}`, "tag": `"quoted" <b>`} {
		id := idempotency.ID{Operation: "charge", Key: key}
		s.settle(s.begin(id, time.Minute), idempotency.Settlement{State: idempotency.Completed, HasResult: true, Result: []byte(result)})
		has(t, html.UnescapeString(s.get("idempotency/record?operation=charge&result=show&key="+key)), `<span class="value string">`+result+`</span>`)
	}
}

func TestU2ALineBreakOfATypedResultIsStoredAsTyped(t *testing.T) {
	s := newSite(t, nil)
	s.seedRecords()
	form := url.Values{"claim": {s.claim("invoice-4")}, "state": {"completed"}, "ttl": {"1h"}, "result": {"{\r\n  \"ok\": true\r\n}"}} // as browsers send a text
	has(t, s.post("do/idempotency/resolve?"+invoice4, form), "invoice-4 was resolved as completed.")
	if diff := cmp.Diff("{\n  \"ok\": true\n}", string(s.record("invoice-4").Result)); diff != "" {
		t.Error(diff)
	}
}

func TestU2AnUnknownOutcomeIsResolvedUnderTheClaimThatWasSeen(t *testing.T) {
	s := newSite(t, nil)
	s.seedRecords()
	has(t, s.get("do/idempotency/resolve?tenant_id=acme&operation=charge&key=invoice-3"), "Only an unknown outcome")
	preview := s.get("do/idempotency/resolve?" + invoice4)
	claim := s.claim("invoice-4")
	has(t, html.UnescapeString(preview), "Resolve invoice-4", "tenet idempotency resolve --tenant acme --operation charge --as completed invoice-4", `value="`+claim+`"`)
	form := url.Values{"claim": {claim}, "state": {"failed"}, "result": {`{"ok": true}`}, "ttl": {"1h"}, "message": {"gone"}}
	has(t, s.post("do/idempotency/resolve?"+invoice4, form), "A result goes with completed", "{&#34;ok&#34;: true}")
	form.Set("state", "completed")
	form.Set("ttl", "soon")
	has(t, s.post("do/idempotency/resolve?"+invoice4, form), "write a time span")
	form.Set("ttl", "1h")
	stale := url.Values{"claim": {`"host-1.7"`}, "state": {"completed"}, "ttl": {"1h"}}
	has(t, html.UnescapeString(s.post("do/idempotency/resolve?"+invoice4, stale)), "superseded", `value="`+claim+`"`)
	has(t, s.post("do/idempotency/resolve?"+invoice4+"&return=/ui/idempotency", form), "invoice-4 was resolved as completed.")
	r := s.record("invoice-4")
	if diff := cmp.Diff(`{"ok": true}`, string(r.Result)); diff != "" || r.State != idempotency.Completed || !r.HasResult {
		t.Errorf("%+v\n%s", r, diff)
	}
	if left := time.Until(r.Expires); left < 59*time.Minute || left > time.Hour {
		t.Errorf("kept for %s", left)
	}
}

func TestU2RecordsAreClearedAndExpiredOnesRemoved(t *testing.T) {
	s := newSite(t, nil)
	s.seedRecords()
	has(t, s.get("do/idempotency/clear?tenant_id=acme&operation=charge&key=invoice-3"), "running under a live claim")
	has(t, s.post("do/idempotency/clear?"+invoice4, url.Values{"claim": {s.claim("invoice-4")}, "count": {"1"}}), "invoice-4 was cleared.")
	if _, err := s.db.Idempotency().Get(t.Context(), idempotency.ID{Tenant: "acme", Operation: "charge", Key: "invoice-4"}); !errors.Is(err, idempotency.ErrNotFound) {
		t.Error(err)
	}
	for i := range 3 {
		c := s.begin(idempotency.ID{Key: fmt.Sprint("old-", i)}, time.Minute)
		if err := s.db.Idempotency().Settle(t.Context(), c, idempotency.Settlement{State: idempotency.Completed, TTL: time.Microsecond}); err != nil {
			t.Fatal(err)
		}
	}
	has(t, s.post("do/idempotency/expire", url.Values{"key": {"e"}}), "3 expired records were removed.")
}

func TestU2AnUnknownOutcomeIsResolvedInTheBrowser(t *testing.T) {
	s := newSite(t, nil)
	s.seedRecords()
	b := s.tab(t, wide)
	b.open("idempotency/record?" + invoice4)
	value[bool](b, `[...document.querySelectorAll("#content a.button")].find((a) => a.textContent === "Resolve").click(); true`)
	b.wait(`document.querySelector("#dialog[open] select[name=state]") === document.activeElement`)
	value[bool](b, `document.querySelector("select[name=state]").value = "released"; document.querySelector("#dialog form").requestSubmit(); true`)
	b.ready(".notice")
	if text := b.text(".notice"); text != "invoice-4 was resolved as released." {
		t.Error(text)
	}
	if r := s.record("invoice-4"); r.State != idempotency.Released {
		t.Errorf("%+v", r)
	}
}
