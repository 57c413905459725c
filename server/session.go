package server

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

func (s *Server) sessionRoutes() {
	public := func(method, path, id, summary string) route {
		r := group{tag: "Session"}.route(method, path, id, summary)
		r.public = true
		return r
	}
	redirect := func(r route) route {
		r.Responses = map[string]*huma.Response{"302": {Description: "Redirection of the browser"}}
		return r
	}
	login := redirect(public(http.MethodGet, "/v1/session/login", "login", "Send a browser to the OpenID Connect provider"))
	login.Parameters = []*huma.Param{queryParameter("return", "The path of this server to come back to; / if absent.", &huma.Schema{Type: huma.TypeString})}
	s.raw(login, "", s.login)
	s.raw(redirect(public(http.MethodGet, "/v1/session/callback", "login-callback", "Finish a sign-in; the provider sends browsers here")), "", s.loginCallback)
	logout := public(http.MethodDelete, "/v1/session", "logout", "End the session of a browser")
	logout.Responses = map[string]*huma.Response{"204": {Description: "The session has ended"}}
	s.raw(logout, "", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, expired(sessionCookie))
		w.WriteHeader(http.StatusNoContent)
	})
	register(s, public(http.MethodGet, "/v1/session/methods", "sign-in-methods", "Say how a browser can sign in"),
		func(context.Context, *struct{}) (*answer[api.SignInMethods], error) {
			return answers(api.SignInMethods{Methods: s.identity.methods()}, nil)
		})
	signIn := public(http.MethodPost, "/v1/session", "sign-in", "Begin the session of a browser with a token")
	signIn.Description = "The session lasts 8 hours, or as long as the token if that is shorter, and ends within 5 seconds when the token is revoked."
	register(s, signIn, s.signIn)
	me := group{tag: "Session", scope: anyScope}
	register(s, me.route(http.MethodGet, "/v1/session", "who-am-i", "Say who makes the request, and what it may do"), func(ctx context.Context, _ *struct{}) (*answer[api.Caller], error) {
		return answers(s.described(callerOf(ctx)), nil)
	})
}

func (s *Server) described(who *caller) api.Caller {
	return api.Caller{
		Name: who.Name, Kind: who.kind, Scopes: who.Scopes, Queues: who.Queues, Documents: who.Documents, Expires: who.Expires, ReadOnly: s.options.ReadOnly,
		Methods: s.identity.methods(),
	}
}

type sessionAnswer struct {
	SetCookie http.Cookie `header:"Set-Cookie"`
	Body      api.Caller
}

func (s *Server) signIn(ctx context.Context, in *bodyOf[api.SignIn]) (*sessionAnswer, error) {
	cookie, who, err := s.identity.signIn(ctx, strings.TrimSpace(in.Body.Token))
	if err != nil {
		return nil, err
	}
	return &sessionAnswer{*cookie, s.described(who)}, nil
}

// anyScope stands for an operation that every known caller may use.
const anyScope policystore.Scope = "any"

func expired(name string) *http.Cookie {
	return &http.Cookie{Name: name, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
}

func noPeople() *problem {
	return refusal(http.StatusNotFound, "this server has no OpenID Connect provider", "use a token")
}

// longestReturn is the longest path to return to after a sign-in, in bytes of JSON: it is in a cookie, which browsers keep up to 4,096
// bytes.
const longestReturn = 2000

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	p := s.identity.people
	if p == nil {
		noPeople().write(w)
		return
	}
	target := r.URL.Query().Get("return")
	escaped, _ := json.Marshal(target) // a string never fails
	if len(escaped) > longestReturn || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") || strings.ContainsAny(target, "\\\r\n\t") {
		target = "/" // not to another site
	}
	begun, url := p.begin(target)
	cookie, err := s.identity.cookies.seal(r.Context(), loginCookie, begun, loginTime)
	if err != nil {
		s.problemOf(r.Context(), err).write(w)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, url, http.StatusFound) //nolint:gosec // the provider of the options
}

func (s *Server) loginCallback(w http.ResponseWriter, r *http.Request) {
	p := s.identity.people
	if p == nil {
		noPeople().write(w)
		return
	}
	refuse := func(status int, detail string) {
		refusal(status, detail, "sign in again: /v1/session/login").write(w)
	}
	var begun login
	query := r.URL.Query()
	http.SetCookie(w, expired(loginCookie)) // once
	if err := s.identity.cookies.open(r, loginCookie, &begun); err != nil || !time.Now().Before(begun.Expires) ||
		subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(begun.State)) != 1 {
		refuse(http.StatusBadRequest, "this sign-in was not begun in this browser, or too long ago")
		return
	}
	var person session
	var err error
	switch fault := query.Get("error"); fault {
	case "":
		person, err = p.finish(r.Context(), begun, query.Get("code"))
	case "server_error", "temporarily_unavailable": // RFC 6749, 4.1.2.1
		err = fmt.Errorf("%w: %s", errAway, fault)
	default:
		err = fmt.Errorf("the provider refused it: %s", fault)
	}
	switch {
	case errors.Is(err, errRefused):
		refuse(http.StatusForbidden, errRefused.Error())
	case errors.Is(err, errAway):
		s.options.Logger.ErrorContext(r.Context(), "a sign-in failed", "error", err)
		const remedy = "sign in again later: /v1/session/login; until then, sign in with a token"
		refusal(http.StatusServiceUnavailable, errAway.Error(), remedy).retryIn(awayTime).write(w)
	case err != nil:
		s.options.Logger.WarnContext(r.Context(), "a sign-in failed", "error", err)
		refuse(http.StatusBadRequest, "the provider's answer was not accepted")
	default:
		cookie, err := s.identity.cookies.seal(r.Context(), sessionCookie, person, sessionTime)
		if err != nil {
			s.problemOf(r.Context(), err).write(w)
			return
		}
		http.SetCookie(w, cookie)
		http.Redirect(w, r, begun.Return, http.StatusFound)
	}
}
