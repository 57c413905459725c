package serve

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/client"
)

func freezeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "freeze NAME --reason TEXT", Short: "Refuse changes to a document",
		Long: `Refuse changes to a document until somebody unfreezes it: nobody can publish or roll back, and a rollout does not advance. A
revision that does harm is still taken back. Freezing a frozen document replaces the reason.`,
		Example: "  tenet policy freeze mail --reason 'sale until Monday'",
	}
	reason := cmd.Flags().String("reason", "", "why, for whoever wants to change the document")
	cmd = changeFreezeCommand(a, cmd, "show whether the document is frozen, without freezing it", func(d *client.Documents, ctx context.Context, name string) (policystore.Document, error) {
		return d.Freeze(ctx, name, *reason)
	})
	freeze := cmd.RunE
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, args []string) error {
		if strings.TrimSpace(*reason) == "" {
			return cli.Usagef("--reason is missing: say why nobody should change the document")
		}
		return freeze(cmd, args)
	})
	return cmd
}

func unfreezeCommand(a *cli.App) *cobra.Command {
	return changeFreezeCommand(a, &cobra.Command{
		Use: "unfreeze NAME", Short: "Allow changes to a document again",
		Example: "  tenet policy unfreeze mail",
	}, "show whether the document is frozen, without unfreezing it", (*client.Documents).Unfreeze)
}

func changeFreezeCommand(a *cli.App, cmd *cobra.Command, dry string, change func(d *client.Documents, ctx context.Context, name string) (policystore.Document, error)) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	open.ServerFlags(cmd)
	dryRun := cmd.Flags().Bool("dry-run", false, dry)
	form := cli.OutputFlag(cmd)
	cmd.RunE = cli.RunE(func(cmd *cobra.Command, args []string) error {
		d, err := target(cmd.Context())
		if err != nil {
			return err
		}
		if *dryRun {
			change = (*client.Documents).Get
		}
		state, err := change(d, cmd.Context(), args[0])
		if err != nil {
			return missing(args[0], err)
		}
		return a.Print(*form, state, func(w io.Writer) {
			frozen := "not frozen"
			if f := state.Freeze; f != nil {
				frozen = fmt.Sprintf("frozen by %s: %s", f.Actor, cli.OneLine(f.Reason))
			}
			cli.Fprintf(w, "%s: %s\n", state.Name, frozen)
		})
	})
	return cmd
}
