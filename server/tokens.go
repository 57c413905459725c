package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

type tokenID struct {
	ID string `path:"id" maxLength:"64"`
}

func (s *Server) tokenRoutes() {
	read := group{tag: "Tokens", scope: policystore.ScopeAdmin, unbound: true}
	change := group{tag: "Tokens", scope: policystore.ScopeAdmin, once: keyed, unbound: true}
	register(s, read.route(http.MethodGet, "/v1/tokens", "list-tokens", "List tokens without their secrets"), s.listTokens)
	create := read.route(http.MethodPost, "/v1/tokens", "create-token", "Make a token; its secret is in this answer only")
	create.once = named
	create.Description = "A name exists once: a repetition gets 409. Revoke the token of a lost answer, and make another."
	register(s, create, s.createToken)
	register(s, change.route(http.MethodDelete, "/v1/tokens/{id}", "revoke-token", "Revoke a token; servers refuse it within 5 seconds"), s.revokeToken)
}

var tokenList = listing[string, policystore.Token]{"tokens", func(t policystore.Token) string { return t.ID }}

func (s *Server) listTokens(ctx context.Context, in *PageQuery) (*answer[api.TokenPage], error) {
	list, next, err := tokenList.page(ctx, *in, s.options.Policies.Tokens)
	return answers(api.TokenPage{Tokens: orEmpty(list), Next: next}, err)
}

// FindToken returns the token with an ID, or [policystore.ErrNotFound].
func FindToken(ctx context.Context, store policystore.Credentials, id string) (policystore.Token, error) {
	page := func(after string, limit int) ([]policystore.Token, error) { return store.Tokens(ctx, after, limit) }
	for t, err := range paging.All("", api.MaxBatch, page, func(t policystore.Token) string { return t.ID }) {
		if err != nil || t.ID == id {
			return t, err
		}
	}
	return policystore.Token{}, policystore.ErrNotFound
}

// OnToken describes the making or revocation of a token for the audit log.
func OnToken(action string, t policystore.Token) audit.Operation {
	return audit.Operation{Action: action, Attributes: map[string]string{
		"token": t.ID, "name": t.Name, "scopes": strings.Join(lists.Texts(t.Scopes), " "), "queues": strings.Join(t.Queues, " "),
		"documents": strings.Join(t.Documents, " "), "expires": operation.Instant(t.Expires),
	}}
}

func (s *Server) createToken(ctx context.Context, in *bodyOf[api.NewToken]) (*answer[api.CreatedToken], error) {
	who := callerOf(ctx)
	if !in.Body.Expires.IsZero() && !in.Body.Expires.After(time.Now()) {
		return nil, fmt.Errorf("%w: expires: this time has passed", errInvalid)
	}
	t, secret := NewToken(policystore.Token{
		Name: in.Body.Name, Scopes: slices.Compact(slices.Sorted(slices.Values(in.Body.Scopes))), Queues: in.Body.Queues, Documents: in.Body.Documents,
		Expires: in.Body.Expires, Creator: who.actor(),
	})
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errInvalid, err)
	}
	o := OnToken("tokens.create", t)
	if err := s.record(ctx, o); err != nil {
		return nil, err
	}
	err := s.options.Policies.AddToken(ctx, t)
	if errors.Is(err, policystore.ErrConflict) {
		taken := refusal(http.StatusConflict, "a token of this name exists", "use another name")
		err = errors.Join(taken, s.record(ctx, operation.Refused(o, taken.Detail)))
	}
	return answers(api.CreatedToken{Token: t, Secret: secret}, err)
}

func (s *Server) revokeToken(ctx context.Context, in *tokenID) (*struct{}, error) {
	t, err := FindToken(ctx, s.options.Policies, in.ID)
	if err != nil {
		return nil, err
	}
	if err := s.record(ctx, OnToken("tokens.revoke", t)); err != nil {
		return nil, err
	}
	defer s.identity.readAgain()
	return nil, s.options.Policies.RevokeToken(ctx, in.ID, time.Now())
}
