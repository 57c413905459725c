package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/operation"
	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// TokenCommand returns "tenet token".
func TokenCommand(a *cli.App) *cobra.Command {
	return cli.Group("token", "Make, list and revoke the tokens of servers",
		`Make, list and revoke the tokens with which programs and operators use a server.

The commands work on the store of the servers, which makes the first token, or through a server with a token that has the
scope admin. The store's audit log records what they change.`, createCommand(a), tokensCommand(a), revokeCommand(a))
}

// keeper keeps tokens: a server, or the store itself.
type keeper interface {
	CreateToken(ctx context.Context, in api.NewToken) (api.CreatedToken, error)
	Tokens(ctx context.Context) ([]policystore.Token, error)
	RevokeToken(ctx context.Context, id string) error
}

var _ keeper = (*client.Client)(nil)

// ofStore keeps tokens in a store.
type ofStore struct {
	*open.All
	app *cli.App
}

func (s ofStore) put(ctx context.Context, o audit.Operation) (err error) {
	log, closeLog, err := open.LogOn(ctx, s.app, s.Log, func() error { return nil })
	if err != nil {
		return err
	}
	return errors.Join(recording.Record(ctx, log, o), closeLog())
}

// CreateToken implements keeper.
func (s ofStore) CreateToken(ctx context.Context, in api.NewToken) (api.CreatedToken, error) {
	t, secret := server.NewToken(policystore.Token{
		Name: in.Name, Scopes: in.Scopes, Queues: in.Queues, Documents: in.Documents, Expires: in.Expires, Creator: recording.Actor(),
	})
	if err := t.Check(); err != nil {
		return api.CreatedToken{}, err
	}
	o := server.OnToken("tokens.create", t)
	if err := s.put(ctx, o); err != nil {
		return api.CreatedToken{}, err
	}
	err := s.Policies.AddToken(ctx, t)
	if errors.Is(err, policystore.ErrConflict) {
		err = errors.Join(err, s.put(ctx, operation.Refused(o, "a token of this name exists")))
	}
	return api.CreatedToken{Token: t, Secret: secret}, err
}

// Tokens implements keeper.
func (s ofStore) Tokens(ctx context.Context) (list []policystore.Token, err error) {
	page := func(after string, limit int) ([]policystore.Token, error) {
		return s.Policies.Tokens(ctx, after, limit)
	}
	for t, err := range paging.All("", api.MaxBatch, page, func(t policystore.Token) string { return t.ID }) {
		if err != nil {
			return nil, err
		}
		list = append(list, t)
	}
	return list, nil
}

// RevokeToken implements keeper.
func (s ofStore) RevokeToken(ctx context.Context, id string) error {
	t, err := server.FindToken(ctx, s.Policies, id)
	if err != nil {
		return err
	}
	if err := s.put(ctx, server.OnToken("tokens.revoke", t)); err != nil {
		return err
	}
	return s.Policies.RevokeToken(ctx, id, time.Now())
}

// withKeeper runs f on the tokens of --server or of --store.
func withKeeper(ctx context.Context, a *cli.App, o open.Options, f func(keeper) error) error {
	c, err := open.Target(ctx)
	switch {
	case err != nil:
		return err
	case c != nil:
		return f(c)
	}
	all, err := open.Everything(ctx, a, o)
	if err != nil {
		return err
	}
	return errors.Join(f(ofStore{all, a}), all.Close())
}

// scopesOf checks scopes of a flag.
func scopesOf(flag string, names []string) (list []policystore.Scope, err error) {
	known := lists.Texts(policystore.Scopes())
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, cli.Usagef("--%s: unknown scope %q; the scopes are %s", flag, name, strings.Join(known, ", "))
		}
		list = append(list, policystore.Scope(name))
	}
	return slices.Compact(slices.Sorted(slices.Values(list))), nil
}

func createCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "create NAME --scopes SCOPE,…", Short: "Make a token, and print it once", Args: cobra.ExactArgs(1),
		Long: `Make a token and print it. Only its hash is stored, so it cannot be shown again.

  read     read everything but tokens and hidden payloads
  report   follow documents and report, as client programs do
  operate  change jobs, queues, periodic jobs and idempotency records
  publish  publish, roll out and roll back documents
  admin    everything, tokens included

--queue and --document bound the token to queues and documents; a name that ends in * is a prefix.`,
		Example: `  tenet token create ops --scopes read,operate --expires 720h --store sqlite:tenet.db
  tenet token create mailer --scopes report --document mail --server https://tenet.example.com`,
	}
	store := open.JobsFlag(cmd)
	names := cmd.Flags().StringSlice("scopes", nil, "what the token may do: read, report, operate, publish, admin")
	var in api.NewToken
	var lifetime time.Duration
	cmd.Flags().Var(cli.Duration(&lifetime), "expires", "how long the token works (default: until it is revoked)")
	cmd.Flags().StringSliceVar(&in.Queues, "queue", nil, "only for this queue; may be repeated")
	cmd.Flags().StringSliceVar(&in.Documents, "document", nil, "only for this document; may be repeated")
	dryRun := cmd.Flags().Bool("dry-run", false, "check the flags without making the token")
	return cli.WithOutput(cmd, func(cmd *cobra.Command, args []string, form string) (err error) {
		if in.Name = args[0]; in.Name == "" || len(*names) == 0 {
			return cli.Usagef("write the token's name and --scopes")
		}
		for name, bounds := range map[string][]string{"queue": in.Queues, "document": in.Documents} {
			if cmd.Flags().Changed(name) && len(bounds) == 0 { // for example from an unset variable in a script
				return cli.Usagef("--%s is empty: write a name, or leave the flag out", name)
			}
		}
		if in.Scopes, err = scopesOf("scopes", *names); err != nil {
			return err
		}
		if lifetime > 0 {
			in.Expires = time.Now().Add(lifetime)
		}
		if *dryRun {
			return a.Print(form, in, cli.AsLine("would make the token %s", in.Name))
		}
		return withKeeper(cmd.Context(), a, open.Options{URL: *store, Create: true}, func(k keeper) error {
			made, err := k.CreateToken(cmd.Context(), in)
			if errors.Is(err, policystore.ErrConflict) {
				return cli.Fail(cli.ExitConflict, fmt.Errorf("a token named %q exists: use another name", in.Name))
			}
			if err != nil {
				return err
			}
			err = a.Print(form, made, cli.AsLine("%s", made.Secret))
			if err = cli.Unprinted("token "+in.Name+" was made", err); err != nil {
				err = fmt.Errorf("%w; revoke it, and make another", err)
			}
			return err
		})
	})
}

func tokensCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List tokens, without what they are", Args: cobra.NoArgs,
		Example: "  tenet token list --store sqlite:tenet.db",
	}
	store, form := open.JobsFlag(cmd), cli.OutputFlag(cmd)
	return cli.WithRun(cmd, func(cmd *cobra.Command, _ []string) error {
		return withKeeper(cmd.Context(), a, open.Options{URL: *store}, func(k keeper) error {
			list, err := k.Tokens(cmd.Context())
			if err != nil {
				return err
			}
			return a.Print(*form, list, cli.AsTable("ID\tNAME\tSCOPES\tQUEUES\tDOCUMENTS\tEXPIRES\tREVOKED", list, func(t policystore.Token) []any {
				return []any{
					t.ID, t.Name, strings.Join(lists.Texts(t.Scopes), " "), strings.Join(t.Queues, " "), strings.Join(t.Documents, " "),
					cli.Clock(t.Expires), cli.Clock(t.Revoked),
				}
			}))
		})
	})
}

func revokeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke ID|NAME", Short: "Revoke a token; servers refuse it within 5 seconds", Args: cobra.ExactArgs(1),
		Example: "  tenet token revoke ops --store sqlite:tenet.db",
	}
	store, form := open.JobsFlag(cmd), cli.OutputFlag(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, "print what would be done, without doing it")
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		return withKeeper(ctx, a, open.Options{URL: *store}, func(k keeper) error {
			list, err := k.Tokens(ctx)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(list, func(t policystore.Token) bool { return t.ID == args[0] || t.Name == args[0] })
			if i < 0 {
				return cli.Fail(cli.ExitNotFound, fmt.Errorf("there is no token %q; tenet token list shows them", args[0]))
			}
			verb := "would be"
			if !*dryRun {
				verb = "is"
				if err := k.RevokeToken(ctx, list[i].ID); err != nil {
					return err
				}
			}
			return a.Print(*form, list[i], cli.AsLine("%s %s revoked", list[i].Name, verb))
		})
	})
}
