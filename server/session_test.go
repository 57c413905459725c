package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// signedIn returns the cookie of a session.
func (e *env) signedIn(secret string) *http.Cookie {
	e.t.Helper()
	r := e.do(call{method: http.MethodPost, path: "/v1/session", body: api.SignIn{Token: secret}, secret: "-"})
	list := (&http.Response{Header: r.header}).Cookies()
	if r.status != 200 || len(list) != 1 {
		e.t.Fatalf("sign in: %d %s, %d cookies", r.status, r.body, len(list))
	}
	return list[0]
}

// with sends a request with a cookie and no token.
func (e *env) with(c *http.Cookie, method, path string) reply {
	e.t.Helper()
	return e.do(call{method: method, path: path, secret: "-", header: map[string]string{"Cookie": c.Name + "=" + c.Value, "Idempotency-Key": "k"}})
}

func TestS5ATokenSignsABrowserIn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		secret := e.tokenOf(policystore.Token{Name: "ann", Scopes: []policystore.Scope{policystore.ScopeRead}, Queues: []string{"mail"}})
		c := e.signedIn(secret)
		if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || !strings.HasPrefix(c.Name, "__Host-") || c.Path != "/" || c.MaxAge != 8*3600 {
			t.Errorf("the cookie: %+v", c)
		}
		if strings.Contains(c.Value, secret) || strings.Contains(c.Value, hashOf(secret)) {
			t.Error("the cookie shows the token")
		}
		var me api.Caller
		e.with(c, http.MethodGet, "/v1/session").into(t, &me)
		if me.Name != "ann" || me.Kind != "token" || len(me.Queues) != 1 || len(me.Methods) != 1 || me.Methods[0] != "token" {
			t.Errorf("who am I: %+v", me)
		}
		if r := e.with(c, http.MethodPut, "/v1/queues/mail"); r.status != 403 {
			t.Errorf("beyond the scopes of the token: %d", r.status)
		}
		if r := e.with(c, http.MethodDelete, "/v1/session"); r.status != 204 || !strings.Contains(r.header.Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("sign out: %d %v", r.status, r.header)
		}
		other := *e
		other.makeServer() // on the same store
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/session", http.NoBody)
		r.AddCookie(c)
		if other.server.Handler().ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("another server of the store: %d %s", w.Code, w.Body)
		}
		time.Sleep(8 * time.Hour)
		if r := e.with(c, http.MethodGet, "/v1/session"); r.status != 401 {
			t.Errorf("after 8 hours: %d", r.status)
		}
	})
}

func TestS5ASessionEndsWithItsToken(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, e *env) {
		token, secret := NewToken(policystore.Token{Name: "ann", Scopes: []policystore.Scope{policystore.ScopeRead}})
		short := e.tokenOf(policystore.Token{Scopes: []policystore.Scope{policystore.ScopeRead}, Expires: time.Now().Add(time.Hour)})
		if err := e.options.Policies.AddToken(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		revoked, expires := e.signedIn(secret), e.signedIn(short)
		if expires.MaxAge != 3600 {
			t.Errorf("the cookie lasts %d s, its token an hour", expires.MaxAge)
		}
		if err := e.options.Policies.RevokeToken(t.Context(), token.ID, time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if r := e.with(revoked, http.MethodGet, "/v1/session"); r.status != 401 {
			t.Errorf("5 seconds after its token was revoked: %d", r.status)
		}
		if r := e.with(expires, http.MethodGet, "/v1/session"); r.status != 200 {
			t.Errorf("with a token that is valid: %d", r.status)
		}
		time.Sleep(time.Hour)
		if r := e.with(expires, http.MethodGet, "/v1/session"); r.status != 401 {
			t.Errorf("after its token expired: %d", r.status)
		}
	})
}

func TestS5SignInIsRefused(t *testing.T) {
	e := newEnv(t, nil)
	signIn := call{method: http.MethodPost, path: "/v1/session", body: api.SignIn{Token: "tenet_wrong"}, secret: "-"}
	if r := e.do(signIn); r.status != 401 || r.header.Get("Set-Cookie") != "" {
		t.Errorf("with a wrong token: %d %v", r.status, r.header)
	}
	signIn.body, signIn.header = api.SignIn{Token: e.secret}, map[string]string{"Sec-Fetch-Site": "cross-site"}
	if r := e.do(signIn); r.status != 403 || r.header.Get("Set-Cookie") != "" {
		t.Errorf("from another site: %d %v", r.status, r.header)
	}
	c := e.signedIn(e.secret)
	for name, value := range map[string]string{"of nobody": "x", "changed": c.Value[:len(c.Value)-4] + "AAAA", "of another name": ""} {
		forged := *c
		if forged.Value = value; value == "" {
			other, err := e.server.identity.cookies.seal(t.Context(), loginCookie, session{Token: hashOf(e.secret), Expires: time.Now().Add(time.Hour)}, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			forged.Value = other.Value
		}
		if r := e.with(&forged, http.MethodGet, "/v1/session"); r.status != 401 {
			t.Errorf("a cookie %s: %d", name, r.status)
		}
	}
	var methods api.SignInMethods
	e.do(call{method: http.MethodGet, path: "/v1/session/methods", secret: "-"}).into(t, &methods)
	if len(methods.Methods) != 1 || methods.Methods[0] != "token" {
		t.Errorf("methods %v", methods)
	}
}

func TestS5AProgramSaysWhoItsUsersAre(t *testing.T) {
	e := newEnv(t, func(o *Options) {
		o.Authenticate = func(r *http.Request) (*Caller, error) {
			switch r.Header.Get("X-User") {
			case "":
				return nil, nil
			case "bad":
				return nil, errors.New("the secret reason")
			case "unnamed":
				return &Caller{Scopes: policystore.Scopes()}, nil
			}
			return &Caller{Name: r.Header.Get("X-User"), Scopes: []policystore.Scope{policystore.ScopeOperate}, Queues: []string{"mail"}}, nil
		}
	})
	as := func(user, method, path string, body any) reply {
		return e.do(call{method: method, path: path, body: body, header: map[string]string{"X-User": user, "Idempotency-Key": "k" + user + path}, secret: "-"})
	}
	if r := as("ann", http.MethodPut, "/v1/queues/mail", api.QueueSwitch{Paused: true}); r.status != 200 {
		t.Errorf("within its scopes: %d %s", r.status, r.body)
	}
	if r := e.get("/v1/audit/events?type=operator_action"); !strings.Contains(r.body, `"actor":"user:ann"`) {
		t.Errorf("the record of the change: %s", r.body)
	}
	if r := as("ann", http.MethodPut, "/v1/queues/other", api.QueueSwitch{Paused: true}); r.status != 403 {
		t.Errorf("a queue that it is not bound to: %d", r.status)
	}
	if r := as("ann", http.MethodGet, "/v1/tokens", nil); r.status != 403 {
		t.Errorf("without the scope: %d", r.status)
	}
	for _, user := range []string{"bad", "unnamed"} {
		if r := as(user, http.MethodGet, "/v1/session", nil); r.status != 401 || strings.Contains(r.body, "secret reason") {
			t.Errorf("%s: %d %s", user, r.status, r.body)
		}
	}
	if r := as("", http.MethodGet, "/v1/session", nil); r.status != 401 {
		t.Errorf("nobody: %d", r.status)
	}
	if r := e.get("/v1/session"); r.status != 200 {
		t.Errorf("a token beside: %d", r.status)
	}
}
