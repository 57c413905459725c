package serve

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server"
)

// peopleFlags are the flags of OpenID Connect.
type peopleFlags struct {
	issuer, clientID, secretFile, base, claim string
	groups, scopes                            []string
}

func (f *peopleFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.issuer, "oidc-issuer", "", "OpenID Connect provider that signs people in")
	flags.StringVar(&f.clientID, "oidc-client-id", "", "client ID of the server at the provider")
	flags.StringVar(&f.secretFile, "oidc-client-secret-file", "", "file with the client's secret; - is stdin; none for a public client")
	flags.StringVar(&f.base, "oidc-base-url", "", "address under which people reach the server; the provider redirects to URL/v1/session/callback")
	flags.StringVar(&f.claim, "oidc-groups-claim", "groups", "claim that lists a person's groups")
	flags.StringArrayVar(&f.groups, "oidc-group", nil, "what the members of a group may do, as GROUP=SCOPE,…; may be repeated")
	flags.StringSliceVar(&f.scopes, "oidc-scope", nil, "scopes to ask the provider for, beside openid, profile and email")
}

// options returns the server's options of OpenID Connect, nil without --oidc-issuer.
func (f *peopleFlags) options(ctx context.Context, a *cli.App) (*server.OIDC, error) {
	switch {
	case f.issuer == "" && (f.clientID != "" || f.secretFile != "" || f.base != "" || len(f.groups)+len(f.scopes) > 0):
		return nil, cli.Usagef("the flags --oidc-… need --oidc-issuer: without it, nobody can sign in")
	case f.issuer == "":
		return nil, nil
	case f.clientID == "" || f.base == "" || len(f.groups) == 0:
		return nil, cli.Usagef("--oidc-issuer needs --oidc-client-id, --oidc-base-url and at least one --oidc-group")
	}
	o := &server.OIDC{
		Issuer: f.issuer, ClientID: f.clientID, BaseURL: f.base, GroupsClaim: f.claim, Scopes: f.scopes, Groups: map[string][]policystore.Scope{},
	}
	for _, text := range f.groups {
		group, list, ok := strings.Cut(text, "=")
		if !ok || group == "" {
			return nil, cli.Usagef("--oidc-group %q: write GROUP=SCOPE,…", text)
		}
		scopes, err := scopesOf("oidc-group", strings.Split(list, ","))
		if err != nil {
			return nil, err
		}
		o.Groups[group] = scopes
	}
	if f.secretFile == "" {
		return o, nil
	}
	secret, err := a.ReadFile(ctx, f.secretFile)
	o.ClientSecret = strings.TrimSpace(string(secret))
	return o, err
}
