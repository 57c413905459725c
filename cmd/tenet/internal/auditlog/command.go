package auditlog

import (
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
)

// Command returns "tenet audit".
func Command(a *cli.App) *cobra.Command {
	cmd := cli.Group("audit", "Verify, replay, summarize and read audit logs", `Verify, replay, summarize and read audit logs, as written with --audit. LOG is the path of a file, or file:PATH, sqlite:PATH,
postgres://… or nats://…; without it the log is that of --server. None of these commands changes a log.`,
		verifyCommand(a), headCommand(a), replayCommand(a), auditStatsCommand(a), queryCommand(a), tailCommand(a), explainCommand(a), extractCommand(a))
	for _, c := range cmd.Commands() {
		open.ServerFlags(c)
	}
	cmd.Example = `  tenet audit verify audit.jsonl
  tenet audit replay audit.jsonl --what-if new.yaml
  tenet audit explain audit.jsonl 0195f3a2-6c1e-7f64-8d0c-4a4a0c6f1c55`
	return cmd
}
