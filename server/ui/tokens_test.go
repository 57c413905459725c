package ui_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server"
)

// as returns the same site for a caller with a token.
func (s *site) as(secret string) *site {
	other := *s
	other.secret = secret
	return &other
}

// token makes a token and returns its secret.
func (s *site) token(t policystore.Token) string {
	s.t.Helper()
	t, secret := server.NewToken(t)
	if err := s.db.Policies().AddToken(s.t.Context(), t); err != nil {
		s.t.Fatal(err)
	}
	return secret
}

func TestU2ATokenIsShownOnceAndRevoked(t *testing.T) {
	s := newSite(t, nil)
	has(t, s.get("tokens"), "No tokens yet", "Create a token")
	has(t, s.get("do/tokens/create"), "This is the first token")
	form := url.Values{"name": {"ops"}, "expires": {"720h"}, "queues": {"mail docs*"}, "key": {"a"}}
	has(t, s.post("do/tokens/create", form), "Choose at least one scope", `value="mail docs*"`)
	form["scopes"] = []string{"read", "operate"}
	if page := s.post("do/tokens/create", url.Values{"name": {""}, "expires": {"24h"}}); strings.Count(page, " selected") != 1 {
		t.Errorf("the lifetime is not as it was sent:\n%s", page)
	}
	has(t, s.post("do/tokens/create", url.Values{"name": {"root"}, "scopes": {"admin"}, "expires": {""}}), "Sign in with it")

	root := s.as(s.token(policystore.Token{Name: "test", Scopes: []policystore.Scope{policystore.ScopeAdmin}}))
	page := root.post("do/tokens/create", form)
	secret := regexp.MustCompile(`tenet_[\w-]{43}`).FindString(page)
	if secret == "" {
		t.Fatalf("no secret in\n%s", page)
	}
	has(t, root.post("do/tokens/create", form), "a token of this name exists")
	list := root.get("tokens")
	has(t, list, "ops", "queues mail, docs*", "token:test", "yours")
	if strings.Contains(list, "tenet_") {
		t.Errorf("a secret in\n%s", list)
	}
	has(t, s.as(secret).get("queues"), "ops") // it works
	id := regexp.MustCompile(`do/tokens/([^/]+)/revoke`)
	for _, row := range strings.Split(list, "<tr>") {
		if strings.Contains(row, ">ops") {
			path := id.FindString(row)
			has(t, root.get(path), "Revoke the token ops?", "token revoke ops")
			has(t, root.post(path, url.Values{"key": {"r"}, "count": {"1"}}), "revoked")
		}
	}
	has(t, s.as(secret).get("queues"), "<h1>Sign in</h1>")
}

func TestU2ADoubleClickSendsAFormOnce(t *testing.T) {
	s := newSite(t, nil)
	b := s.tab(t, wide)
	b.open("do/tokens/create")
	sends := func(form string) []bool {
		return value[[]bool](b, `[1, 2].map(() => document.querySelector("`+form+`").dispatchEvent(new Event("submit", {bubbles: true, cancelable: true})))`)
	}
	if got := sends("form.preview"); !slices.Equal(got, []bool{true, false}) {
		t.Errorf("the form is sent: %v", got)
	}
	if got := sends("form.search"); !slices.Equal(got, []bool{true, true}) {
		t.Errorf("the search is sent: %v", got)
	}
	value[bool](b, `window.dispatchEvent(new Event("pageshow"))`)
	if got := sends("form.preview"); !slices.Equal(got, []bool{true, false}) {
		t.Errorf("the form is sent after the way back: %v", got)
	}
}

func TestU4ATokenIsRevokedAfterAPreview(t *testing.T) {
	s := newSite(t, nil)
	root := s.token(policystore.Token{Name: "root", Scopes: []policystore.Scope{policystore.ScopeAdmin}})
	victim := s.token(policystore.Token{Name: "ops", Scopes: []policystore.Scope{policystore.ScopeRead}})
	b := s.tab(t, wide)
	b.open("login?return=%2Fui%2Ftokens")
	b.do(chromedp.Focus(chromedp.CSS(`input[type="password"]`)))
	b.write(root)
	b.keys(kb.Enter)
	b.wait(`location.pathname === "/ui/tokens" && document.readyState === "complete"`)
	row := `[...document.querySelectorAll("#content tbody tr")].find((r) => r.querySelector("th").textContent.includes("ops"))`
	b.wait(row + `?.querySelector('a[href*="/revoke"]')`)
	value[bool](b, row+`.querySelector('a[href*="/revoke"]').focus(), true`)
	b.keys(kb.Enter)
	b.wait(`document.querySelector("#dialog").open && document.querySelector("#dialog").textContent.includes("Revoke the token ops?")`)
	b.accessible("the preview")
	has(t, s.as(victim).get("queues"), "Queues") // a preview changes nothing
	b.do(chromedp.Click(chromedp.CSS("#dialog button.danger")))
	b.wait(`document.querySelector(".notice")?.textContent.includes("The token was revoked")`)
	b.wait(row + `.textContent.includes("revoked")`)
	has(t, s.as(victim).get("queues"), "<h1>Sign in</h1>")
}

func TestS5PagesShowWhatTheCallerMay(t *testing.T) {
	s := newSite(t, nil)
	s.seed()
	reader := s.as(s.token(policystore.Token{Name: "reader", Scopes: []policystore.Scope{policystore.ScopeRead}}))
	if page := reader.get("queues"); strings.Contains(page, "Pause") {
		t.Error("a reader sees a button to pause")
	}
	if page := reader.get("periodic"); strings.Contains(page, "Run now") {
		t.Error("a reader sees a button to run a periodic job")
	}
	has(t, reader.refused("tokens", http.StatusForbidden), "needs the scope admin", "What to do")
	has(t, reader.refused("do/tokens/create", http.StatusForbidden), "needs the scope admin")

	bound := s.as(s.token(policystore.Token{Name: "bound", Scopes: []policystore.Scope{policystore.ScopeRead, policystore.ScopeOperate}, Queues: []string{"ma*"}}))
	for _, path := range []string{"", "queues", "jobs", "workers", "periodic"} {
		if page := bound.get(path); strings.Contains(page, "documents") {
			t.Errorf("%q shows a queue that the token is not bound to:\n%s", path, page)
		}
	}
	has(t, bound.get("queues"), "mail", "Pause")
	has(t, bound.refusedPost("do/queues/documents/pause", url.Values{"reason": {"x"}, "key": {"b"}}, http.StatusForbidden), "bound to the queues ma*")
	if s.queue("documents").Paused {
		t.Error("a bound token paused another queue")
	}
}

func TestS6AReadOnlyServerShowsNoButtons(t *testing.T) {
	s := newSite(t, func(o *server.Options) { o.ReadOnly = true })
	s.seed()
	for _, path := range []string{"queues", "queues/mail", "periodic", "tokens"} {
		page := s.get(path)
		has(t, page, `<span class="badge">read-only</span>`)
		if strings.Contains(page, "/ui/do/") {
			t.Errorf("%s has a button:\n%s", path, page)
		}
	}
	has(t, s.refusedPost("do/queues/mail/pause", url.Values{"reason": {"x"}, "key": {"b"}}, http.StatusForbidden), "read-only")
}

// browser returns a client that keeps cookies and sends the site's token.
func (s *site) browser() *http.Client {
	browser := *s.http.Client()
	browser.Jar, _ = cookiejar.New(nil) // never fails
	if s.secret != "" {
		browser.Transport = bearer{s.http.Client().Transport, s.secret}
	}
	return &browser
}

// bearer sends a token with every request.
type bearer struct {
	next   http.RoundTripper
	secret string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.secret)
	return b.next.RoundTrip(r)
}
