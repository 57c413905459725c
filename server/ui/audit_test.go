package ui_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
)

func TestU2TheAuditLogAndOperatorsActionsAreSearched(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	root := s.as(s.token(policystore.Token{Name: "root", Scopes: []policystore.Scope{policystore.ScopeAdmin}}))
	root.post("do/queues/mail/pause", url.Values{"reason": {"provider is down"}, "key": {"k1"}})
	root.post("do/queues/mail/resume", url.Values{"key": {"k2"}})
	page := root.get("operators")
	has(t, page, "queues.pause", "queues.resume", "token:root", "provider is down", "open", "paused")
	if strings.Index(page, "queues.resume") > strings.Index(page, "queues.pause") {
		t.Error("the oldest comes first")
	}
	if page := root.get("operators?action=queues.pause&actor=token%3Aroot"); !strings.Contains(page, ">queues.pause</a>") || strings.Contains(page, ">queues.resume</a>") {
		t.Error(page)
	}
	has(t, root.get("operators?actor=nobody"), "No action matches")
	has(t, root.get("audit?type=operator_action&actor=token%3Aroot"), "queues.pause, open → paused", "Heads of the chains")

	dead, err := s.db.Jobs().List(t.Context(), job.Filter{States: []job.State{job.Dead}}, "", 1)
	if err != nil || len(dead) == 0 {
		t.Fatal(dead, err)
	}
	page = root.get("audit?work_id=" + dead[0].ID)
	has(t, page, "/ui/jobs/"+dead[0].ID, "--work "+dead[0].ID)
	event := regexp.MustCompile(`href="/ui/(audit/\d+)"`).FindStringSubmatch(page)
	if event == nil {
		t.Fatalf("no event in\n%s", page)
	}
	has(t, root.get(event[1]), dead[0].ID, "schema_version", "open the job")
	has(t, root.refused("audit/999999999", http.StatusNotFound), "no event at this place")
	bound := s.as(s.token(policystore.Token{Name: "bound", Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"mail"}}))
	for _, path := range []string{"audit", "operators", event[1]} {
		has(t, bound.refused(path, http.StatusForbidden), "bound to the queues mail")
	}
}

func TestU2TheAuditLogIsReadPageByPage(t *testing.T) {
	s := newSite(t, nil)
	s.seed() // more than a page of events
	older := regexp.MustCompile(`href="/ui/(audit\?[^"]*before=[^"]*)"`)
	seen := map[string]bool{}
	path := "audit"
	for range 20 {
		page := s.get(path)
		for _, m := range regexp.MustCompile(`href="/ui/audit/(\d+)"`).FindAllStringSubmatch(page, -1) {
			if seen[m[1]] {
				t.Errorf("event %s twice", m[1])
			}
			seen[m[1]] = true
		}
		next := older.FindStringSubmatch(page)
		if next == nil {
			break
		}
		path = strings.ReplaceAll(next[1], "&amp;", "&")
	}
	n := 0
	if err := s.db.Audit().Read(t.Context(), "", func(string, []byte) error { n++; return nil }); err != nil || n != len(seen) || n <= 100 {
		t.Errorf("%d of %d events, %v", len(seen), n, err)
	}
}

func TestU2TheAuditLogIsVerifiedAndReplayedPartByPart(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	s.publish("shop", 0, "version: 1\ndefaults: {jobs: {retry: {max_attempts: 1}}}\n", "", nil)
	has(t, s.get("audit"), "do/audit/verify", "do/audit/replay")
	has(t, s.get("do/audit/verify"), "Heads that were kept elsewhere", "tenet audit verify --server URL")
	has(t, s.get("do/audit/replay"), "as recorded", "<option>shop</option>")
	hidden := regexp.MustCompile(`name="cursor" value="([^"]+)"`)
	run := func(path string, form url.Values) (page string) {
		for parts := 1; ; parts++ {
			page = s.post(path, form)
			cursor := hidden.FindStringSubmatch(page)
			if cursor == nil {
				if parts < 3 {
					t.Errorf("%s: %d parts", path, parts)
				}
				return page
			}
			has(t, page, "of about", "Continue")
			form.Set("cursor", html.UnescapeString(cursor[1]))
		}
	}
	heads, err := s.db.Audit().Heads(t.Context())
	if err != nil || len(heads) == 0 {
		t.Fatal(heads, err)
	}
	has(t, run("do/audit/verify", url.Values{"lines": {"50"}}), "intact", "Nothing confirms the end", heads[0].Hash)
	has(t, run("do/audit/verify", url.Values{"lines": {"50"}, "heads": {strings.Repeat("0", 64)}, "given": {"true"}}), "not intact", "truncated", "tenet audit verify --server URL --head heads.json")
	has(t, run("do/audit/replay", url.Values{"lines": {"50"}, "document": {""}}), "replayed as recorded")
	has(t, run("do/audit/replay", url.Values{"lines": {"50"}, "document": {"shop"}}), "Under revision 1 of shop", "Total", "tenet audit replay --server URL --what-if server:URL/shop@1")
	has(t, run("do/audit/replay", url.Values{"lines": {"50"}, "document": {"shop@1"}}), "Under revision 1 of shop")
	has(t, s.post("do/audit/verify", url.Values{"heads": {"rubbish"}}), "A hash has 64 digits")
	has(t, s.post("do/audit/replay", url.Values{"document": {"shop@x"}}), "or a revision of it such as shop@7")
	for _, text := range []string{"@1", "@", "shop@", "shop@0"} {
		has(t, s.post("do/audit/replay", url.Values{"document": {text}}), "or a revision of it such as shop@7")
	}
	has(t, s.post("do/audit/replay", url.Values{"document": {"shop@9"}}), "no such revision", `value="shop@9"`)
	has(t, s.post("do/audit/replay", url.Values{"document": {"nobody"}}), "no such document")
}

func TestU2APartThatFailsIsShown(t *testing.T) {
	s := newSite(t, nil)
	reader := s.token(policystore.Token{Name: "reader", Scopes: []policystore.Scope{policystore.ScopeRead}})
	bound := s.token(policystore.Token{Name: "bound", Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"mail"}})
	for _, c := range []struct{ secret, cursor, want string }{
		{reader, "%21", "The form was changed on its way"}, {bound, "AAAA", "bound to the queues mail"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.http.URL+"/ui/do/audit/verify", strings.NewReader("cursor="+c.cursor))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Hx-Request", "true")
		r.Header.Set("Hx-Target", "content") // as the form of the next part
		r.Header.Set("Authorization", "Bearer "+c.secret)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(answer.Body)
		if err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status, err)
		}
		has(t, string(page), `<div id="content">`, c.want)
	}
}

func TestU2AVerificationGoesOnByItself(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	b := s.tab(t, wide)
	b.open("do/audit/verify")
	value[bool](b, `(() => { const f = document.querySelector("form.preview"); f.insertAdjacentHTML("beforeend", '<input type="hidden" name="lines" value="20">'); f.requestSubmit(); return true })()`)
	b.wait(`document.querySelector("#content [role=status]")?.textContent.includes("intact")`)
	b.accessible("a verification")
}
