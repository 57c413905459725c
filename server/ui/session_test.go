package ui_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server"
)

func TestS5ATokenSignsInAndOut(t *testing.T) {
	s := newSite(t, nil)
	b := s.tab(t, wide)
	b.open("tokens")
	b.press("Create a token")
	b.wait(`document.querySelector("#dialog[open] input[name=name]") === document.activeElement`)
	b.keys("m", "e", kb.Tab, kb.Tab, kb.Tab, kb.Tab, kb.Tab, " ") // the name, then the scope admin
	b.keys(kb.Enter)
	b.ready("#secret")
	secret := b.text("#secret")
	b.open("") // with a token in the store, the server asks who this is
	b.ready("#token")
	b.accessible("sign in")
	b.fill("#token", "tenet_wrong")
	b.press("Sign in")
	b.ready("#content .problem")
	b.fill("#token", secret)
	b.press("Sign in")
	b.ready("details.who")
	if who := b.text("details.who summary"); who != "me" {
		t.Errorf("signed in as %q", who)
	}
	b.open("tokens")
	if text := b.text("#content"); !strings.Contains(text, "yours") || strings.Contains(text, secret) {
		t.Error(text)
	}
	value[bool](b, `document.querySelector("details.who").open = true; document.querySelector("details.who form button").click(); true`)
	b.ready("#token")
	b.open("jobs")
	b.ready("#token")
	b.allow("401 (Unauthorized)") // of the wrong token
}

func TestU1AFormSurvivesTheEndOfASession(t *testing.T) {
	s := newSite(t, nil)
	s.enqueue(job.Request{Type: "t", Queue: "mail"})
	b, other := s.tab(t, wide), s.tab(t, wide)
	b.open("do/queues/mail/pause")
	secret := s.token(policystore.Token{Name: "me", Scopes: []policystore.Scope{policystore.ScopeAdmin}}) // now callers must be known
	b.fill("#f-reason", "typed")
	b.press("Pause mail")
	b.shows("Sign in in another tab")
	other.open("login")
	other.fill("#token", secret)
	other.press("Sign in")
	other.ready("details.who")
	b.do(chromedp.Reload())
	b.shows("mail is paused.")
	if q := s.queue("mail"); q.Reason != "typed" {
		t.Errorf("%+v", q)
	}
	b.allow("401")
}

func TestS5SigningInNeedsAValidToken(t *testing.T) {
	s := newSite(t, nil)
	secret := s.token(policystore.Token{Name: "me", Scopes: []policystore.Scope{policystore.ScopeRead}})
	has(t, s.get("queues?span=1d"), `action="/ui/login?return=%2Fui%2Fqueues%3Fspan%3D1d"`)
	for _, wrong := range []string{"", "tenet_wrong", secret + "x", strings.Repeat("x", 70_000)} {
		page := s.refusedPost("login", url.Values{"token": {wrong}}, http.StatusUnauthorized)
		has(t, page, "does not accept this token")
		if wrong != "" && strings.Contains(page, wrong) {
			t.Error("the page repeats the token")
		}
	}
	// Only paths of the UI are places to return to.
	for target, want := range map[string]string{"/ui/jobs": "/ui/jobs", "https://evil.example/ui/": "/ui/", "//evil.example/ui/": "/ui/", "/v1/stats": "/ui/", "///evil.example/../ui/jobs": "/ui/"} {
		browser := s.browser()
		browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		answer, err := browser.PostForm(s.http.URL+"/ui/login?return="+url.QueryEscape(target), url.Values{"token": {secret}})
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := answer.Header.Get("Location"); got != want {
			t.Errorf("%s leads to %s", target, got)
		}
		for _, c := range answer.Cookies() {
			if !c.HttpOnly || !c.Secure || c.SameSite == http.SameSiteNoneMode || strings.Contains(c.Value, secret) {
				t.Errorf("the cookie %+v", c)
			}
		}
	}
}

func TestS5NoPageShowsASecret(t *testing.T) {
	s := newSite(t, nil)
	s.seedAll()
	pages := s.everyPage()
	secret := s.token(policystore.Token{Name: "root", Scopes: []policystore.Scope{policystore.ScopeAdmin}})
	root := s.as(secret)
	for name, path := range pages {
		page := root.get(path)
		if strings.Contains(page, "tenet_") || strings.Contains(page, secret) {
			t.Errorf("%s shows a secret:\n%s", name, page)
		}
		if strings.Contains(page, "ch_s3cret") {
			t.Errorf("%s shows the result of a record", name)
		}
	}
}

func TestS5UsersOfAProgramDoNotSignOutHere(t *testing.T) {
	s := newSite(t, func(o *server.Options) {
		o.Authenticate = func(*http.Request) (*server.Caller, error) {
			return &server.Caller{Name: "ann", Scopes: []policystore.Scope{policystore.ScopeRead}}, nil
		}
	})
	page := s.get("queues")
	has(t, page, "<summary>ann</summary>")
	if strings.Contains(page, "Sign out") {
		t.Error("a button that would do nothing")
	}
}

// TestS6AFormThatIsCutOffMayBeSentAgain: the status says that it did not arrive completely.
func TestS6AFormThatIsCutOffMayBeSentAgain(t *testing.T) {
	s := newSite(t, nil)
	for _, path := range []string{"login", "do/queues/mail/pause"} {
		conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /ui/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 99\r\n\r\ntoken=", path)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn)
		if text := string(answer); !strings.HasPrefix(text, "HTTP/1.1 408") || !strings.Contains(text, "It did not arrive completely.") {
			t.Errorf("%s: %s", path, text)
		}
	}
	has(t, s.refusedPost("do/queues/mail/pause", url.Values{"reason": {strings.Repeat("x", 4<<20)}}, http.StatusRequestEntityTooLarge), "larger than 4096 KiB")
}
