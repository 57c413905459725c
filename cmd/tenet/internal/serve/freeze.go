package serve

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
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
	dryRun := cmd.Flags().Bool("dry-run", false, "show whether the document is frozen, without freezing it")
	return showCommand(a, cmd, func(d *client.Documents, ctx context.Context, name string) (policystore.Document, error) {
		switch {
		case strings.TrimSpace(*reason) == "":
			return policystore.Document{}, cli.Usagef("--reason is missing: say why nobody should change the document")
		case *dryRun:
			return d.Get(ctx, name)
		}
		return d.Freeze(ctx, name, *reason)
	}, writeFreeze)
}

func unfreezeCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "unfreeze NAME", Short: "Allow changes to a document again",
		Example: "  tenet policy unfreeze mail",
	}
	dryRun := cmd.Flags().Bool("dry-run", false, "show whether the document is frozen, without unfreezing it")
	return showCommand(a, cmd, func(d *client.Documents, ctx context.Context, name string) (policystore.Document, error) {
		if *dryRun {
			return d.Get(ctx, name)
		}
		return d.Unfreeze(ctx, name)
	}, writeFreeze)
}

func writeFreeze(w io.Writer, name string, d policystore.Document) {
	frozen := "not frozen"
	if f := d.Freeze; f != nil {
		frozen = fmt.Sprintf("frozen by %s: %s", f.Actor, cli.OneLine(f.Reason))
	}
	cli.Fprintf(w, "%s: %s\n", name, frozen)
}
