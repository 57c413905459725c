package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/tenetdev/tenet/internal/netguard"
	"github.com/tenetdev/tenet/policystore"
)

// OIDC signs people in with an OpenID Connect provider: authorization code with PKCE.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret string // may be empty for a public client
	// BaseURL is the address under which people reach the server, as https://host[:port][/path]; the provider redirects to
	// BaseURL/v1/session/callback. With http, browsers keep the session's cookie for their own machine only.
	BaseURL string
	// Groups maps the groups of a person to scopes. A person in none of these groups is refused.
	Groups map[string][]policystore.Scope
	// GroupsClaim is the claim of the ID token that lists the groups. Default "groups".
	GroupsClaim string
	// Scopes are asked for beside openid, profile and email, for providers that want one for groups.
	Scopes []string
	// Client talks to the provider. Default: http.DefaultTransport, but an HTTP/2 connection that is dead is given up within 30 s. Without
	// a Timeout, a request may take 10 s.
	Client *http.Client
}

const (
	loginCookie = "__Host-tenet-login"
	loginTime   = 10 * time.Minute
	askTime     = 10 * time.Second // how long a request to the provider may take: all who sign in wait for the same one for its keys
)

// people signs people in.
type people struct {
	options  OIDC
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier
	oauth    oauth2.Config
	failed   atomic.Int64 // unanswered requests for the provider's keys, which all sign-ins share
}

// client returns a client that counts the requests that the provider does not answer.
func (p *people) client(failed *atomic.Int64) *http.Client {
	client := *cmp.Or(p.options.Client, &http.Client{Transport: netguard.Checked()})
	client.Timeout = cmp.Or(client.Timeout, askTime)
	client.Transport = counting{cmp.Or(client.Transport, http.DefaultTransport), failed}
	return &client
}

// counting counts the requests that a provider does not answer completely. The libraries keep only the text of some of these errors.
type counting struct {
	http.RoundTripper
	failed *atomic.Int64
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	if err != nil {
		c.broke(r)
		return answer, err
	}
	away := answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests
	answer.Body = countedBody{answer.Body, away, func() { c.broke(r) }}
	return answer, nil
}

// broke counts a request that broke off, unless the browser that it was made for has left.
func (c counting) broke(r *http.Request) {
	if !errors.Is(r.Context().Err(), context.Canceled) {
		c.failed.Add(1)
	}
}

type countedBody struct {
	io.ReadCloser
	away  bool // the status says that the provider does not work now
	broke func()
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.broke()
	}
	return n, err
}

// Close counts an answer by its status. It does so at the end, as other sign-ins may come to wait for the same answer until then.
func (b countedBody) Close() error {
	if b.away {
		b.broke()
	}
	return b.ReadCloser.Close()
}

func newPeople(ctx context.Context, o *OIDC) (*people, error) {
	missing := ""
	switch {
	case o.Issuer == "":
		missing = "Issuer"
	case o.ClientID == "":
		missing = "ClientID"
	case o.BaseURL == "":
		missing = "BaseURL"
	case len(o.Groups) == 0:
		missing = "Groups"
	}
	if missing != "" {
		return nil, fmt.Errorf("server: OpenID Connect: %s is missing: nobody could sign in", missing)
	}
	base, err := url.Parse(o.BaseURL)
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Hostname() == "" || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("server: OpenID Connect: BaseURL: write https://host[:port][/path]: nobody could sign in")
	}
	p := &people{options: *o}
	p.options.GroupsClaim = cmp.Or(p.options.GroupsClaim, "groups")
	client := p.client(&p.failed)
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("server: OpenID Connect: %w", err)
	}
	p.provider = provider
	// The provider's keys are read when they are needed, long after ctx.
	p.verifier = provider.VerifierContext(oidc.ClientContext(context.WithoutCancel(ctx), client), &oidc.Config{ClientID: o.ClientID})
	p.oauth = oauth2.Config{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: provider.Endpoint(),
		RedirectURL: strings.TrimSuffix(o.BaseURL, "/") + "/v1/session/callback",
		Scopes:      append([]string{oidc.ScopeOpenID, "profile", "email"}, o.Scopes...),
	}
	return p, nil
}

// login is a sign-in that has begun.
type login struct {
	State, Nonce, Verifier, Return string
	Expires                        time.Time
}

// begin returns a sign-in and where the browser goes for it.
func (p *people) begin(target string) (l login, to string) {
	l = login{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: target, Expires: time.Now().Add(loginTime)}
	return l, p.oauth.AuthCodeURL(l.State, oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier))
}

// errRefused marks a person who is known but may do nothing.
var errRefused = errors.New("none of your groups may use this server")

// errAway marks a sign-in that failed because the provider does not answer now.
var errAway = errors.New("the OpenID Connect provider did not answer")

// finish exchanges the code of a sign-in for the person.
func (p *people) finish(ctx context.Context, l login, code string) (session, error) {
	var failed atomic.Int64
	s, err := p.exchange(oidc.ClientContext(ctx, p.client(&failed)), l, code)
	if err != nil && (failed.Load() > 0 || errors.Is(ctx.Err(), context.DeadlineExceeded)) {
		err = fmt.Errorf("%w: %w", errAway, err)
	}
	return s, err
}

func (p *people) exchange(ctx context.Context, l login, code string) (session, error) {
	token, err := p.oauth.Exchange(ctx, code, oauth2.VerifierOption(l.Verifier))
	if err != nil {
		return session{}, fmt.Errorf("exchange of the code: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	failed := p.failed.Load()
	id, err := p.verifier.Verify(ctx, raw)
	if err != nil && p.failed.Load() != failed {
		err = fmt.Errorf("%w: %w", errAway, err)
	}
	if err != nil {
		return session{}, err
	}
	if id.Nonce != l.Nonce {
		return session{}, errors.New("the nonce is another")
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return session{}, err
	}
	if claims[p.options.GroupsClaim] == nil { // some providers tell the rest on request only
		info, err := p.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err == nil && info.Subject != id.Subject {
			err = errors.New("the subject is another person")
		}
		if err != nil {
			return session{}, fmt.Errorf("user info: %w", err)
		}
		if err := info.Claims(&claims); err != nil {
			return session{}, err
		}
	}
	s := session{Name: id.Subject, Scopes: p.scopes(claims), Expires: time.Now().Add(sessionTime)}
	if email, _ := claims["email"].(string); email != "" && claims["email_verified"] == true {
		s.Name = email
	}
	if len(s.Scopes) == 0 {
		return session{}, errRefused
	}
	return s, nil
}

// scopes maps the groups of a person.
func (p *people) scopes(claims map[string]any) []policystore.Scope {
	found := map[policystore.Scope]bool{}
	groups, _ := claims[p.options.GroupsClaim].([]any)
	for _, g := range groups {
		name, _ := g.(string)
		for _, scope := range p.options.Groups[name] {
			found[scope] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
