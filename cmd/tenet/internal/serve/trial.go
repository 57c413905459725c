package serve

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

func trialCommand(a *cli.App) *cobra.Command {
	show := showCommand(a, &cobra.Command{
		Use: "show NAME", Short: "Show what the revision under trial would have decided otherwise",
		Example: "  tenet policy trial show mail --server https://tenet.example.com",
	}, (*client.Documents).Trial, writeTrial)
	return cli.Group("trial", "Show or end the trial of a revision", `A revision that was published with --trial is evaluated by clients beside the one in force, without effect. Each client asks both
what to do after every failed attempt, and reports where they differ. Publish the document again, with or without --rollout, to put it
in force.`, show, endTrialCommand(a))
}

func writeTrial(w io.Writer, name string, t api.Trial) {
	cli.Fprintf(w, "%s: revision %d under trial since %s, by %s\n", name, t.Revision, cli.Clock(t.Since), t.Actor)
	cli.Fprintf(w, "  %s\n", cli.Count(t.Clients, "client"))
	if t.Refused > 0 {
		cli.Fprintf(w, "  %s cannot use it: %s\n", cli.Count(t.Refused, "client"), cli.OneLine(t.Reason))
	}
	share := ""
	if t.Decisions > 0 {
		share = fmt.Sprintf(" (%.2f %%)", 100*float64(t.Diverged)/float64(t.Decisions))
	}
	cli.Fprintf(w, "  %d of %d decisions differ%s\n", t.Diverged, t.Decisions, share)
	if len(t.Divergences) > 0 {
		cli.Table(w, "KEY\tIN FORCE\tUNDER TRIAL\tDECISIONS", t.Divergences, func(d rollout.Divergence) []any {
			return []any{cli.OneLine(d.Key), d.Reason, d.Trial, d.Count}
		})
	}
}

func endTrialCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "end NAME", Short: "End the trial of a revision",
		Example: "  tenet policy trial end mail --server https://tenet.example.com",
	}
	dryRun := cmd.Flags().Bool("dry-run", false, "print which trial would end, without ending it")
	return showCommand(a, cmd, func(d *client.Documents, ctx context.Context, name string) (api.Trial, error) {
		t, err := d.Trial(ctx, name)
		if err == nil && !*dryRun {
			_, err = d.EndTrial(ctx, name)
		}
		return t, err
	}, writeTrial)
}
