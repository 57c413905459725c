package auditlog

import (
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
)

func extractCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use: "extract [LOG] WORK_ID", Short: "Write a test case of one call, job or transaction", Args: cobra.RangeArgs(1, 2),
		Long: `Write the record of one call, job or transaction to stdout as JSON: the policies in force, and the decisions with their facts and
outcomes. The case needs nothing else: in a Go test, tenettest.Replay walks through it under the policies of the program.

What the log has redacted is redacted in the case. Error messages and attributes that the log holds are in it: read it
before you add it to a repository.`,
		Example: `  tenet audit extract audit.jsonl 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 > testdata/incident.json
  tenet audit extract 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55 --server https://tenet.example.com > testdata/incident.json`,
	}
	flag := open.LogFlag(cmd, "log to read, in place of LOG")
	return cli.WithRun(cmd, func(cmd *cobra.Command, args []string) error {
		url, id := logAndID(args)
		switch {
		case url != "" && cli.Given(cmd, "audit"):
			return cli.Usagef("LOG and --audit: give one of them")
		case cli.Given(cmd, "audit") && cli.Given(cmd, "server"):
			return cli.Usagef("--audit and --server: give one of them")
		case url == "" && !cli.Given(cmd, "server"):
			url = *flag
		}
		return open.WithAuditLog(cmd.Context(), a, url, func(log *open.AuditLog) error {
			c, err := audit.Extract(cmd.Context(), log.Direct(), id)
			if err != nil {
				return err
			}
			log.WarnLeftOut(a, c.Unreadable)
			return a.Print(cli.FormJSON, c, nil)
		})
	})
}
