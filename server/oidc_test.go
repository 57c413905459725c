package server

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"

	"github.com/tenetdev/tenet/internal/testhttp"
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

// forger is a provider whose answers a test makes up.
type forger struct {
	t        *testing.T
	url      string
	key      *rsa.PrivateKey
	claims   map[string]any // of the ID token
	userInfo map[string]any
}

func newForger(t *testing.T) *forger {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{t: t, key: key}
	site := httptest.NewServer(f)
	t.Cleanup(site.Close)
	f.url = site.URL
	return f
}

func (f *forger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	base64url := base64.RawURLEncoding.EncodeToString
	out := map[string]any{}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		out = map[string]any{
			"issuer": f.url, "authorization_endpoint": f.url + "/auth", "token_endpoint": f.url + "/token", "jwks_uri": f.url + "/keys", "userinfo_endpoint": f.url + "/me",
		}
	case "/keys":
		out["keys"] = []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "n": base64url(f.key.N.Bytes()), "e": base64url(big.NewInt(int64(f.key.E)).Bytes())}}
	case "/token":
		claims, _ := json.Marshal(f.claims)
		text := base64url([]byte(`{"alg":"RS256"}`)) + "." + base64url(claims)
		sum := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(rand.Reader, f.key, crypto.SHA256, sum[:])
		if err != nil {
			f.t.Error(err)
		}
		out = map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": text + "." + base64url(signature)}
	case "/me":
		out = f.userInfo
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

func TestO3AMissingOptionOfOpenIDConnectIsNamed(t *testing.T) {
	f := newForger(t)
	for name, drop := range map[string]func(*OIDC){
		"Issuer": func(o *OIDC) { o.Issuer = "" }, "ClientID": func(o *OIDC) { o.ClientID = "" }, "BaseURL": func(o *OIDC) { o.BaseURL = "" }, "Groups": func(o *OIDC) { o.Groups = nil },
	} {
		o := OIDC{Issuer: f.url, ClientID: "tenet", BaseURL: "https://tenet.example.com", Groups: map[string][]policystore.Scope{"ops": {policystore.ScopeRead}}}
		if _, err := newPeople(t.Context(), &o); err != nil {
			t.Fatal(err)
		}
		drop(&o)
		if _, err := newPeople(t.Context(), &o); err == nil || !strings.Contains(err.Error(), name+" is missing") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestS5AProviderThatHangsKeepsNobodyOutForEver: all who sign in wait for the same request for its keys.
func TestS5AProviderThatHangsKeepsNobodyOutForEver(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := &forger{t: t, url: "http://provider", key: key}
		var hangs atomic.Value // a path
		client := &http.Client{Transport: testhttp.Transport{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == hangs.Load() {
				<-r.Context().Done()
				return
			}
			f.ServeHTTP(w, r)
		})}}
		o := OIDC{
			Issuer: f.url, ClientID: "tenet", BaseURL: "https://tenet.example.com", Client: client,
			Groups: map[string][]policystore.Scope{"ops": {policystore.ScopeRead}},
		}
		hangs.Store("/.well-known/openid-configuration")
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := newPeople(ctx, &o); err == nil || time.Since(begun) > time.Minute {
			t.Errorf("the server starts after %v: %v", time.Since(begun), err)
		}
		hangs.Store("/keys")
		p, err := newPeople(ctx, &o)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{false, true} {
			begun, _ := p.begin("/")
			f.claims = map[string]any{
				"iss": f.url, "sub": "7", "aud": "tenet", "exp": time.Now().Add(time.Hour).Unix(), "nonce": begun.Nonce, "groups": []string{"ops"},
			}
			ctx, cancel := context.WithTimeout(ctx, callTime)
			if _, err := p.finish(ctx, begun, "c"); (err == nil) != want {
				t.Errorf("signed in %t: %v", want, err)
			}
			cancel()
			hangs.Store("")
			synctest.Wait() // until go-oidc forgets the failed request
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestS5AnOutageOfTheProviderIsNotTheFaultOfWhoeverSignsIn, at each of the provider's addresses; a code unknown to the provider is.
func TestS5AnOutageOfTheProviderIsNotTheFaultOfWhoeverSignsIn(t *testing.T) {
	f := newForger(t)
	for _, c := range []struct {
		path         string // or how the provider sends the browser back
		status, want int    // 0 breaks the connection, 200 breaks it in the middle of the answer
	}{
		{"error=temporarily_unavailable", 0, 503}, {"error=server_error", 0, 503}, {"error=access_denied", 0, 400},
		{"/token", 0, 503}, {"/token", 502, 503}, {"/token", 429, 503}, {"/token", 400, 400},
		{"/keys", 0, 503}, {"/keys", 500, 503}, {"/me", 0, 503}, {"/me", 503, 503}, {"/token", 200, 503}, {"/keys", 200, 503}, {"/me", 200, 503},
	} {
		t.Run(fmt.Sprint(c.path, " ", c.status), func(t *testing.T) {
			client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				switch {
				case r.URL.Path != c.path:
					return http.DefaultTransport.RoundTrip(r)
				case c.status == 0:
					return nil, io.ErrUnexpectedEOF
				}
				var body io.Reader = http.NoBody
				if c.status == http.StatusOK {
					body = io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF))
				}
				return &http.Response{StatusCode: c.status, Header: http.Header{}, Body: io.NopCloser(body), Request: r}, nil
			})}
			e := newEnv(t, func(o *Options) {
				o.OIDC = &OIDC{
					Issuer: f.url, ClientID: "tenet", BaseURL: "https://tenet.example.com/", Client: client,
					Groups: map[string][]policystore.Scope{"ops": {policystore.ScopeRead}},
				}
			})
			begun, _ := e.server.identity.people.begin("/v1/session")
			cookie, err := e.server.identity.cookies.seal(t.Context(), loginCookie, begun, loginTime)
			if err != nil {
				t.Fatal(err)
			}
			f.claims = map[string]any{"iss": f.url, "sub": "7", "aud": "tenet", "exp": time.Now().Add(time.Hour).Unix(), "nonce": begun.Nonce}
			f.userInfo = map[string]any{"sub": "7", "groups": []string{"ops"}}
			back := "code=c"
			if strings.HasPrefix(c.path, "error=") {
				back = c.path
			}
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, "https://tenet.example.com/v1/session/callback?"+back+"&state="+begun.State, http.NoBody)
			r.AddCookie(cookie)
			e.server.Handler().ServeHTTP(w, r)
			away := w.Header().Get("Retry-After") != "" && strings.Contains(w.Body.String(), "provider did not answer") &&
				strings.Contains(w.Body.String(), "sign in again later")
			if w.Code != c.want || away != (c.want == 503) || !strings.Contains(e.log.String(), "a sign-in failed") {
				t.Errorf("%d %s\n%s", w.Code, w.Body, e.log)
			}
		})
	}
}

// TestS5ABrowserThatLeavesIsNotAnOutageOfTheProvider, and is not logged as one.
func TestS5ABrowserThatLeavesIsNotAnOutageOfTheProvider(t *testing.T) {
	f := newForger(t)
	ctx, leave := context.WithCancel(t.Context())
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/token" {
			leave()
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	p, err := newPeople(t.Context(), &OIDC{
		Issuer: f.url, ClientID: "tenet", BaseURL: "https://tenet.example.com/", Client: client,
		Groups: map[string][]policystore.Scope{"ops": {policystore.ScopeRead}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.finish(ctx, login{}, "c"); err == nil || errors.Is(err, errAway) {
		t.Error(err)
	}
}

// TestS5ASignInFailsForItsOwnFaultWhileTheProviderDoesNotAnswerAnother.
func TestS5ASignInFailsForItsOwnFaultWhileTheProviderDoesNotAnswerAnother(t *testing.T) {
	f := newForger(t)
	var p *people
	status := map[string]int{"own": http.StatusBadRequest, "other": http.StatusBadGateway}
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != "/token" {
			return http.DefaultTransport.RoundTrip(r)
		}
		code := r.PostFormValue("code")
		if code == "own" {
			if _, err := p.finish(t.Context(), login{}, "other"); !errors.Is(err, errAway) {
				t.Error(err)
			}
		}
		return &http.Response{StatusCode: status[code], Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})}
	p, err := newPeople(t.Context(), &OIDC{
		Issuer: f.url, ClientID: "tenet", BaseURL: "https://tenet.example.com/", Client: client,
		Groups: map[string][]policystore.Scope{"ops": {policystore.ScopeRead}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.finish(t.Context(), login{}, "own"); err == nil || errors.Is(err, errAway) {
		t.Error(err)
	}
}

// TestS5AnOutageIsThatOfAllWhoWaitForTheSameAnswer for the provider's keys, also if its status was known before they came.
func TestS5AnOutageIsThatOfAllWhoWaitForTheSameAnswer(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := &forger{t: t, url: "http://provider", key: key}
		body, end := io.Pipe()
		p, err := newPeople(t.Context(), &OIDC{
			Issuer: f.url, ClientID: "tenet", BaseURL: "https://tenet.example.com/", Groups: map[string][]policystore.Scope{"ops": {policystore.ScopeRead}},
			Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/keys" {
					return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: body, Request: r}, nil
				}
				return testhttp.Transport{Handler: f}.RoundTrip(r)
			})},
		})
		if err != nil {
			t.Fatal(err)
		}
		f.claims = map[string]any{"iss": f.url, "sub": "7", "aud": "tenet", "exp": time.Now().Add(time.Hour).Unix()}
		errs := make(chan error)
		for range 2 {
			go func() {
				_, err := p.finish(t.Context(), login{}, "c")
				errs <- err
			}()
			synctest.Wait()
		}
		end.Close()
		for range 2 {
			if err := <-errs; !errors.Is(err, errAway) {
				t.Error(err)
			}
		}
	})
}

// TestS5ABaseURLThatIsNotAnAddressIsRefused: providers would send nobody back to it.
func TestS5ABaseURLThatIsNotAnAddressIsRefused(t *testing.T) {
	f := newForger(t)
	for _, base := range []string{"tenet.example.com", "tenet.example.com:7070", "https://", "ftp://tenet.example.com", "https://tenet.example.com/?a=b", "https://tenet.example.com/#a", "https://:7070"} {
		o := OIDC{Issuer: f.url, ClientID: "tenet", BaseURL: base, Groups: map[string][]policystore.Scope{"ops": {policystore.ScopeRead}}}
		if _, err := newPeople(t.Context(), &o); err == nil || !strings.Contains(err.Error(), "BaseURL: write https://host[:port][/path]") {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestS5ASignInThatIsNotTheBrowsersOwnIsRefused(t *testing.T) {
	f := newForger(t)
	e := newEnv(t, func(o *Options) {
		o.OIDC = &OIDC{Issuer: f.url, ClientID: "tenet", BaseURL: "https://tenet.example.com/", Groups: map[string][]policystore.Scope{"ops": {policystore.ScopeRead}}}
	})
	serve := func(path, cookie string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "https://tenet.example.com"+path, http.NoBody)
		r.Header.Set("Cookie", cookie)
		e.server.Handler().ServeHTTP(w, r)
		return w
	}
	for name, c := range map[string]struct {
		claims, info map[string]any // in place of good ones
		state        string
		begun        time.Duration // ago
		name         string        // of the person; "" if the sign-in is refused
	}{
		"the browser's own":               {name: "ann@example.com"},
		"an address that is not verified": {claims: map[string]any{"email_verified": false}, name: "7"},
		"another state":                   {state: "x"},
		"another nonce":                   {claims: map[string]any{"nonce": "x"}},
		"no nonce":                        {claims: map[string]any{"nonce": ""}},
		"for another server":              {claims: map[string]any{"aud": "other"}},
		"of another provider":             {claims: map[string]any{"iss": "https://example.com"}},
		"expired":                         {claims: map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}},
		"groups of another person":        {info: map[string]any{"sub": "8"}},
		"begun too long ago":              {begun: loginTime},
	} {
		t.Run(name, func(t *testing.T) {
			begun, _ := e.server.identity.people.begin("/v1/session")
			begun.Expires = begun.Expires.Add(-c.begun)
			cookie, err := e.server.identity.cookies.seal(t.Context(), loginCookie, begun, loginTime)
			if err != nil {
				t.Fatal(err)
			}
			f.claims = map[string]any{
				"iss": f.url, "sub": "7", "aud": "tenet", "exp": time.Now().Add(time.Hour).Unix(), "nonce": begun.Nonce, "email": "ann@example.com", "email_verified": true,
			}
			f.userInfo = map[string]any{"sub": "7", "groups": []string{"ops"}}
			maps.Copy(f.claims, c.claims)
			maps.Copy(f.userInfo, c.info)
			w := serve("/v1/session/callback?code=c&state="+begun.State+c.state, cookie.Name+"="+cookie.Value)
			session := ""
			for _, c := range w.Result().Cookies() {
				if c.Name == sessionCookie && c.HttpOnly && c.Secure && c.SameSite == http.SameSiteLaxMode {
					session = c.Name + "=" + c.Value
				}
			}
			if c.name == "" {
				if w.Code != 400 || session != "" {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				return
			}
			if me := serve("/v1/session", session); w.Code != 302 || !strings.Contains(me.Body.String(), `"name":"`+c.name+`"`) {
				t.Errorf("%d %s, then %s", w.Code, w.Body, me.Body)
			}
		})
	}
	if strings.Contains(e.log.String(), "%!") {
		t.Errorf("the log: %s", e.log)
	}
	for _, c := range []struct {
		start, more string
		size        int // of more, in JSON
	}{{"/", "a", 1}, {"/ui/jobs?a=b", "&", 6}, {"/", `"`, 2}} {
		longest := c.start + strings.Repeat(c.more, (longestReturn-len(`""`)-len(c.start))/c.size)
		for target, want := range map[string]string{longest: longest, longest + c.more: "/"} {
			w := serve("/v1/session/login?return="+url.QueryEscape(target), "")
			sealed := w.Result().Cookies()[0]
			if w.Code != 302 || len(sealed.Name)+len(sealed.Value) > 4096 {
				t.Errorf("return to %.20q…: %d, a cookie of %d bytes", target, w.Code, len(sealed.Name)+len(sealed.Value))
			}
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.AddCookie(sealed)
			var begun login
			if err := e.server.identity.cookies.open(r, loginCookie, &begun); err != nil || begun.Return != want {
				t.Errorf("return to %.20q… of %d bytes: to %.20q…, %v", target, len(target), begun.Return, err)
			}
		}
	}
}
