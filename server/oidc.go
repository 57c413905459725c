package server

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/tenetdev/tenet/policystore"
)

// OIDC signs people in with an OpenID Connect provider: authorization code with PKCE.
type OIDC struct {
	Issuer       string
	ClientID     string
	ClientSecret string // may be empty for a public client
	// BaseURL is the address under which people reach the server; the provider redirects to BaseURL/v1/session/callback.
	BaseURL string
	// Groups maps the groups of a person to scopes. A person in none of these groups is refused.
	Groups map[string][]policystore.Scope
	// GroupsClaim is the claim of the ID token that lists the groups. Default "groups".
	GroupsClaim string
	// Scopes are asked for beside openid, profile and email, for providers that want one for groups.
	Scopes []string
	// Client talks to the provider. Default http.DefaultClient.
	Client *http.Client
}

const (
	sessionCookie = "__Host-tenet-session"
	loginCookie   = "__Host-tenet-login"
	sessionTime   = 8 * time.Hour
	loginTime     = 10 * time.Minute
)

// people signs people in.
type people struct {
	options  OIDC
	provider *oidc.Provider
	verifier *oidc.IDTokenVerifier
	oauth    oauth2.Config
	seal     cipher.AEAD // of cookies; all servers of a store have its key
}

func newPeople(ctx context.Context, o *OIDC, store policystore.Credentials) (*people, error) {
	p := &people{options: *o}
	if p.options.GroupsClaim == "" {
		p.options.GroupsClaim = "groups"
	}
	if p.options.Client == nil {
		p.options.Client = http.DefaultClient
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.options.Client), o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("server: OpenID Connect: %w", err)
	}
	p.provider = provider
	// The provider's keys are read when they are needed, long after ctx.
	p.verifier = provider.VerifierContext(oidc.ClientContext(context.WithoutCancel(ctx), p.options.Client), &oidc.Config{ClientID: o.ClientID})
	p.oauth = oauth2.Config{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: provider.Endpoint(),
		RedirectURL: strings.TrimSuffix(o.BaseURL, "/") + "/v1/session/callback",
		Scopes:      append([]string{oidc.ScopeOpenID, "profile", "email"}, o.Scopes...),
	}
	key, err := sharedKey(ctx, store)
	if err != nil {
		return nil, fmt.Errorf("server: key of sessions: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("server: key of sessions: %w", err)
	}
	p.seal, err = cipher.NewGCM(block)
	return p, err
}

// sharedKey returns the key of the store's sessions, and makes one if there is none.
func sharedKey(ctx context.Context, store policystore.Credentials) ([]byte, error) {
	const name = "session-key"
	for {
		found, err := store.Setting(ctx, name)
		if !errors.Is(err, policystore.ErrNotFound) {
			return found.Value, err
		}
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		if _, err := store.SaveSetting(ctx, policystore.Setting{Name: name, Value: key}); err == nil {
			return key, nil
		} else if !errors.Is(err, policystore.ErrConflict) {
			return nil, err
		}
	}
}

// cookie seals a value into a cookie. The name is authenticated, so that one cookie cannot stand for another.
func (p *people) cookie(name string, value any, age time.Duration) *http.Cookie {
	raw, _ := json.Marshal(value) // structs of texts and times
	nonce := make([]byte, p.seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return &http.Cookie{
		Name: name, Value: base64.RawURLEncoding.EncodeToString(p.seal.Seal(nonce, nonce, raw, []byte(name))), Path: "/", MaxAge: int(age / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
}

// open reads a sealed cookie.
func (p *people) open(r *http.Request, name string, value any) error {
	c, err := r.Cookie(name)
	if err != nil {
		return err
	}
	raw, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || len(raw) < p.seal.NonceSize() {
		return errors.New("not a cookie of this server")
	}
	plain, err := p.seal.Open(nil, raw[:p.seal.NonceSize()], raw[p.seal.NonceSize():], []byte(name))
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, value)
}

// login is a sign-in that has begun.
type login struct {
	State, Nonce, Verifier, Return string
	Expires                        time.Time
}

// session is a person who has signed in.
type session struct {
	Name    string
	Scopes  []policystore.Scope
	Expires time.Time
}

// session returns the person of a request's session, or nil.
func (p *people) session(r *http.Request) *caller {
	var s session
	if p.open(r, sessionCookie, &s) != nil || !time.Now().Before(s.Expires) {
		return nil
	}
	return &caller{policystore.Token{Name: s.Name, Scopes: s.Scopes, Expires: s.Expires}, "person"}
}

// begin returns a sign-in and where the browser goes for it.
func (p *people) begin(target string) (l login, url string) {
	l = login{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: target, Expires: time.Now().Add(loginTime)}
	return l, p.oauth.AuthCodeURL(l.State, oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier))
}

// errRefused marks a person who is known but may do nothing.
var errRefused = errors.New("none of your groups may use this server")

// finish exchanges the code of a sign-in for the person.
func (p *people) finish(ctx context.Context, l login, code string) (session, error) {
	ctx = oidc.ClientContext(ctx, p.options.Client)
	token, err := p.oauth.Exchange(ctx, code, oauth2.VerifierOption(l.Verifier))
	if err != nil {
		return session{}, fmt.Errorf("exchange of the code: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := p.verifier.Verify(ctx, raw)
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
		if err != nil || info.Subject != id.Subject {
			return session{}, fmt.Errorf("user info: of another person, or %w", err)
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
