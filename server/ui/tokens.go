package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
	"github.com/tenetdev/tenet/server/internal/params"
)

// tokenList is what the page of tokens shows.
type tokenList struct {
	Tokens []tokenRow
	Next   string
	Scopes []choice
}

type tokenRow struct {
	policystore.Token
	State string // valid, expired, revoked
	Own   bool   // the caller's
}

// scopeChoices explains what tokens may do.
func scopeChoices() []choice {
	return []choice{
		{Value: string(policystore.ScopeRead), Text: "read everything but tokens and hidden payloads"},
		{Value: string(policystore.ScopeReport), Text: "follow documents and report, as client programs do"},
		{Value: string(policystore.ScopeOperate), Text: "change jobs, queues, periodic jobs and idempotency records"},
		{Value: string(policystore.ScopePublish), Text: "publish, roll out and roll back documents"},
		{Value: string(policystore.ScopeAdmin), Text: "everything, tokens included"},
	}
}

const tokensPath = "/v1/tokens"

// tokenPageSize is how many tokens a page lists.
const tokenPageSize = "100"

func tokensPage() *page {
	return &page{path: "tokens", nav: "Tokens", title: "Tokens", file: "tokens", load: func(r *request) (any, error) {
		var found api.TokenPage
		if err := r.get(tokensPath, params.Of("limit", tokenPageSize, "cursor", r.query.Get("cursor")), &found); err != nil {
			return nil, err
		}
		row := func(t policystore.Token) tokenRow { return tokenRow{t, tokenState(&t, time.Now()), r.owns(t.Name)} }
		return tokenList{Scopes: scopeChoices(), Next: r.next("tokens", found.Next), Tokens: lists.Map(found.Tokens, row)}, nil
	}}
}

func tokenState(t *policystore.Token, now time.Time) string {
	switch {
	case t.Valid(now):
		return "valid"
	case !t.Revoked.IsZero():
		return "revoked"
	}
	return "expired"
}

// owns reports whether the caller came with the token of a name.
func (r *request) owns(name string) bool { return r.who.Kind == "token" && r.who.Name == name }

// lifetimes are how long new tokens work.
var lifetimes = []choice{
	{Value: "2160h", Text: "90 days"}, {Value: "24h", Text: "1 day"}, {Value: "168h", Text: "7 days"}, {Value: "720h", Text: "30 days"},
	{Value: "8760h", Text: "1 year"}, {Value: "", Text: "until it is revoked"},
}

// createdToken is the page that shows a secret once.
type createdToken struct {
	api.CreatedToken
	First bool
}

// Title names the page.
func (t createdToken) Title() string { return "Token " + t.Name }

func createTokenAction() *action {
	return &action{
		path: "tokens/create",
		preview: func(r *request) (*preview, error) {
			if err := r.get(tokensPath, url.Values{"limit": {"1"}}, &api.TokenPage{}); err != nil {
				return nil, err // the caller may not
			}
			p := &preview{
				Title: "Create a token", Button: "Create the token", Command: "tenet token create",
				Text:   []string{"The next page shows the secret once. The store keeps only its hash."},
				Fields: tokenFields(),
			}
			if r.who.Kind == "local" {
				p.Text = append(p.Text, "This is the first token. As soon as it exists the server asks everybody who they are, you too: give it the scope admin, and sign in with it.")
			}
			return p, nil
		},
		show: func(r *request) (string, any, error) {
			in, err := newToken(r)
			if err != nil {
				return "", nil, err
			}
			out := createdToken{First: r.who.Kind == "local"}
			err = r.do(client.Call{Method: http.MethodPost, Path: tokensPath, Body: in}, &out.CreatedToken)
			return "token", out, err
		},
	}
}

func tokenFields() []field {
	return []field{
		{Name: "name", Label: "Name", Help: "Who or what uses it; the audit log names it. A name exists once.", Required: true, Flag: "VALUE", Unset: "NAME"},
		{Name: "scopes", Label: "Scopes", Type: "checks", Choices: scopeChoices(), Flag: "--scopes VALUE", Unset: "--scopes SCOPES"},
		{Name: "queues", Label: "Only these queues", Help: "Separated by spaces; a name that ends in * is a prefix. Empty: all.", Flag: "--queue VALUE", Several: true},
		{Name: "documents", Label: "Only these documents", Help: "Separated by spaces. Empty: all.", Flag: "--document VALUE", Several: true},
		{Name: "expires", Label: "Works for", Type: "select", Choices: slices.Clone(lifetimes), Flag: "--expires VALUE"},
	}
}

// newToken reads the form.
func newToken(r *request) (in api.NewToken, err error) {
	in = api.NewToken{
		Name: strings.TrimSpace(r.PostFormValue("name")), Queues: parts(r.PostFormValue("queues")), Documents: parts(r.PostFormValue("documents")),
	}
	in.Scopes = lists.Map(r.PostForm["scopes"], func(s string) policystore.Scope { return policystore.Scope(s) })
	if len(in.Scopes) == 0 {
		return in, formFault("Choose at least one scope.")
	}
	lifetime, err := formDuration(r, "expires", "Works for")
	if err == nil && lifetime > 0 {
		in.Expires = time.Now().Add(lifetime)
	}
	return in, err
}

// readToken returns the token that the path names.
func readToken(r *request) (policystore.Token, error) {
	list, err := r.ui.client.Tokens(r.context())
	if err != nil {
		return policystore.Token{}, err
	}
	return listed(list, "There is no such token.", func(t policystore.Token) bool { return t.ID == r.PathValue("id") })
}

func revokeTokenAction() *action {
	return on("tokens/{id}/revoke", readToken, func(r *request, t policystore.Token) (*preview, error) {
		p := &preview{
			Title: "Revoke the token " + t.Name + "?", Button: "Revoke 1 token", Danger: true, Counted: true, Count: 1, Nothing: !t.Revoked.IsZero(),
			Command: commandOn(t.Name, "token", "revoke"),
			Text:    []string{"All servers refuse it within 5 seconds. It cannot be brought back: whoever uses it needs another one."},
		}
		switch {
		case p.Nothing:
			p.Text = []string{"It has been revoked already."}
		case r.owns(t.Name):
			p.Text = append(p.Text, "This is the token that you are signed in with: you will be signed out.")
		}
		return p, nil
	}, func(r *request) (string, string, error) {
		return "The token was revoked.", "", r.change(client.Call{Method: http.MethodDelete, Path: tokensPath + "/" + url.PathEscape(r.PathValue("id"))}, nil)
	})
}
