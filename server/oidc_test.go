package server

import (
	"context"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"

	"github.com/tenetdev/tenet/policystore"
)

// grouped tells the groups of the provider's people: test-user is an operator, test-user2 is in no group.
type grouped struct{ *storage.Storage }

func (g grouped) SetUserinfoFromToken(ctx context.Context, info *oidc.UserInfo, tokenID, subject, origin string) error {
	err := g.Storage.SetUserinfoFromToken(ctx, info, tokenID, subject, origin)
	if err == nil && subject == "id1" {
		info.AppendClaims("groups", []string{"ops", "others"})
	}
	return err
}

func TestS5PeopleSignInWithARealProvider(t *testing.T) {
	provider := httptest.NewUnstartedServer(nil)
	issuer := "http://" + provider.Listener.Addr().String()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "https://" + listener.Addr().String()
	storage.RegisterClients(storage.WebClient("tenet", "secret", base+"/v1/session/callback"))
	provider.Config.Handler = exampleop.SetupServer(issuer, grouped{storage.NewStorage(storage.NewUserStore(issuer))}, nil, false)
	provider.Start()
	t.Cleanup(provider.Close)
	e := newEnv(t, func(o *Options) {
		o.OIDC = &OIDC{
			Issuer: issuer, ClientID: "tenet", ClientSecret: "secret", BaseURL: base,
			Groups: map[string][]policystore.Scope{"ops": {policystore.ScopeRead, policystore.ScopeOperate}},
		}
	})
	site := httptest.NewUnstartedServer(e.server.Handler())
	_ = site.Listener.Close()
	site.Listener = listener
	site.StartTLS()
	t.Cleanup(site.Close)

	browser := func() *http.Client {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Client{Transport: site.Client().Transport, Jar: jar}
	}
	signIn := func(c *http.Client, user string) reply {
		page := visit(t, c, http.MethodGet, base+"/v1/session/login?return=/v1/session", nil)
		id := page.header.Get("Test-Query")
		return visit(t, c, http.MethodPost, issuer+"/login/username", url.Values{"username": {user}, "password": {"verysecure"}, "id": {id}})
	}
	ops := browser()
	me := signIn(ops, "test-user@127.0.0.1")
	if me.status != 200 || !strings.Contains(me.body, `"name":"test-user@zitadel.ch"`) || !strings.Contains(me.body, `"operate"`) {
		t.Fatalf("signed in: %d %s", me.status, me.body)
	}
	if r := visit(t, ops, http.MethodGet, base+"/v1/stats", nil); r.status != 200 {
		t.Errorf("with a session: %d %s", r.status, r.body)
	}
	if r := visit(t, ops, http.MethodGet, base+"/v1/tokens", nil); r.status != 403 {
		t.Errorf("beyond the scopes of the group: %d", r.status)
	}
	target, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range ops.Jar.Cookies(target) {
		if c.Name == loginCookie {
			t.Errorf("the cookie of the sign-in is left")
		}
	}
	if r := signIn(browser(), "test-user2"); r.status != 403 || !strings.Contains(r.body, "none of your groups") {
		t.Errorf("somebody without a group: %d %s", r.status, r.body)
	}
	if r := visit(t, browser(), http.MethodGet, base+"/v1/session/callback?code=x&state=y", nil); r.status != 400 {
		t.Errorf("a sign-in that was not begun here: %d", r.status)
	}
	if r := visit(t, browser(), http.MethodGet, base+"/v1/stats", nil); r.status != 401 {
		t.Errorf("without a session: %d", r.status)
	}
	w := httptest.NewRecorder()
	e.server.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, base+"/v1/session/login?return=//evil.example.com", http.NoBody))
	cookie := w.Result().Cookies()[0]
	if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteLaxMode || !strings.HasPrefix(cookie.Name, "__Host-") {
		t.Errorf("the cookie: %+v", cookie)
	}
	if to := w.Header().Get("Location"); !strings.Contains(to, "code_challenge_method=S256") || !strings.Contains(to, "nonce=") || !strings.Contains(to, "state=") {
		t.Errorf("sent to %s", to)
	}
}

// visit sends a form and follows redirections. Test-Query of the answer is the ID of a login page.
func visit(t *testing.T, c *http.Client, method, target string, form url.Values) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	out := replyOf(t, answer)
	out.header.Set("Test-Query", answer.Request.URL.Query().Get("authRequestID"))
	return out
}
