package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

// CreateToken makes a token. It is sent once: where the answer is lost, revoke the token and make another.
func (c *Client) CreateToken(ctx context.Context, in api.NewToken) (api.CreatedToken, error) {
	return ask[api.CreatedToken](ctx, c, Call{Method: http.MethodPost, Path: "/v1/tokens", Body: in}, asPolicy)
}

// Tokens lists tokens by ID, without their secrets.
func (c *Client) Tokens(ctx context.Context) ([]policystore.Token, error) {
	return all(ctx, c, Call{Path: "/v1/tokens"}, func(p *api.TokenPage) ([]policystore.Token, api.Cursor) { return p.Tokens, p.Next })
}

// RevokeToken revokes a token. Servers refuse it within 5 seconds.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	return asPolicy(c.Do(ctx, Call{Method: http.MethodDelete, Path: "/v1/tokens/" + url.PathEscape(id), Once: true}, nil))
}
