package serve

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/controlplane/protocol"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// ClientsCommand returns "tenet clients".
func ClientsCommand(a *cli.App) *cobra.Command {
	return cli.Group("clients", "List the programs that follow documents of a server, and what they report", "", listClientsCommand(a), mechanismsCommand(a), pipelinesCommand(a))
}

func listClientsCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List programs by document and ID", Args: cobra.NoArgs,
		Long: `List the programs that follow documents: the revision that each should have (desired), the one last sent to it (delivered),
the one that it runs (applied), and the one that it could not use (refused), with the reason.`,
		Example: "  tenet clients list --document mail --server https://tenet.example.com",
	}
	var f client.Selection
	cmd.Flags().StringVar(&f.Document, "document", "", "only programs that follow this document")
	cmd.Flags().Int64Var(&f.Revision, "revision", 0, "only programs that run this revision")
	cmd.Flags().StringVar(&f.Label, "label", "", "only programs with this label, as NAME=VALUE")
	cmd.Flags().BoolVar(&f.Refused, "refused", false, "only programs that could not use a revision")
	return ask(a, cmd, func(ctx context.Context, d *client.Documents, _ []string) ([]policystore.Client, error) {
		return d.Clients(ctx, f)
	}, func(w io.Writer, _ []string, list []policystore.Client) {
		cli.Table(w, "DOCUMENT\tID\tDESIRED\tDELIVERED\tAPPLIED\tREFUSED\tLAST SEEN\tREASON", list, func(c policystore.Client) []any {
			return []any{c.Document, c.ID, c.Desired, c.Delivered, c.Applied, c.Refused, cli.Clock(c.LastSeen), cli.OneLine(c.Reason)}
		})
	})
}

// mechanisms is the output of "clients mechanisms".
type mechanisms struct {
	Mechanisms []api.Mechanism      `json:"mechanisms"`
	Totals     []api.MechanismTotal `json:"totals"` // the worst first
}

func mechanismsCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "mechanisms", Short: "List breakers, budgets and limits that have refused attempts", Args: cobra.NoArgs,
		Long: `List the breakers, budgets and limits of programs seen within the last 10 minutes, as they last reported them: those that have
opened or refused an attempt since their program started. The text has one line per key or budget, the worst first, unless --client,
--name or --state asks for those of each program; -o json has both.`,
		Example: "  tenet clients mechanisms --document mail\n  tenet clients mechanisms --state open -o json",
	}
	var f client.MechanismSelection
	cmd.Flags().StringVar(&f.Document, "document", "", "only programs that follow this document")
	cmd.Flags().StringVar(&f.Client, "client", "", "only the program with this ID")
	cmd.Flags().Var(cli.OneOf(&f.Kind, protocol.Breaker, protocol.Budget, protocol.Limit), "kind", "only this kind")
	cmd.Flags().StringVar(&f.Name, "name", "", "only this key of a breaker or limit, or budget of this name")
	cmd.Flags().Var(cli.OneOf(&f.State, "open", "half_open", "closed", "exhausted", "available"), "state", "only those in this state")
	return ask(a, cmd, func(ctx context.Context, d *client.Documents, _ []string) (out mechanisms, err error) {
		list, totals, err := d.Mechanisms(ctx, f)
		return mechanisms{append([]api.Mechanism{}, list...), append([]api.MechanismTotal{}, totals...)}, err
	}, func(w io.Writer, _ []string, found mechanisms) {
		if f.Client == "" && f.Name == "" && f.State == "" {
			cli.Table(w, "DOCUMENT\tKIND\tNAME\tCLIENTS\tOPEN\tHALF OPEN\tEXHAUSTED\tOPENINGS\tREFUSED", found.Totals, func(t api.MechanismTotal) []any {
				return []any{t.Document, t.Kind, cli.OneLine(t.Name), t.Clients, t.Open, t.HalfOpen, t.Exhausted, t.Openings, t.Refusals}
			})
			return
		}
		cli.Table(w, "DOCUMENT\tCLIENT\tKIND\tNAME\tSTATE\tSINCE\tOPENINGS\tREFUSED", found.Mechanisms, func(m api.Mechanism) []any {
			return []any{m.Document, m.Client, m.Kind, cli.OneLine(m.Name), m.State, cli.Clock(m.Since), m.Openings, m.Refusals}
		})
	})
}

func pipelinesCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "pipelines", Short: "List consumers and producers with their totals", Args: cobra.NoArgs,
		Long: `List the consumers and producers of programs seen within the last 10 minutes, with their totals since the program started and the
transactions per second between its last two reports. LAG counts the transactions that are ready at the source and have not been
handed to any reader: sources of jobs, NATS and RabbitMQ know it, files and tables do not. Programs report when they follow a document of the server, as
tenet consume --policy server:URL/NAME does.`,
		Example: "  tenet clients pipelines --document orders\n  tenet clients pipelines --kind consumer --name orders -o json",
	}
	var f client.PipelineSelection
	cmd.Flags().StringVar(&f.Document, "document", "", "only programs that follow this document")
	cmd.Flags().StringVar(&f.Client, "client", "", "only the program with this ID")
	cmd.Flags().Var(cli.OneOf(&f.Kind, protocol.Consumer, protocol.Producer), "kind", "only this kind")
	cmd.Flags().StringVar(&f.Name, "name", "", "only consumers and producers of this name")
	return ask(a, cmd, func(ctx context.Context, d *client.Documents, _ []string) ([]api.Pipeline, error) {
		return d.Pipelines(ctx, f)
	}, func(w io.Writer, _ []string, list []api.Pipeline) {
		cli.Table(w, "DOCUMENT\tCLIENT\tKIND\tNAME\tRATE\tFETCHED\tSUCCESS\tEXCEPTION\tFAILED\tRETRIES\tIN FLIGHT\tLAG", list, func(p api.Pipeline) []any {
			lag := "unknown"
			if p.LagKnown {
				lag = strconv.FormatInt(p.Lag, 10)
			}
			return []any{p.Document, p.Client, p.Kind, cli.OneLine(p.Name), fmt.Sprintf("%.3g/s", p.Rate), p.Fetched, p.Success, p.Exception, p.Failed, p.Retries, p.InFlight, lag}
		})
	})
}
