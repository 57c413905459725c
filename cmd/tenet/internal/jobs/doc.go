// Package jobs enqueues, imports, lists and changes jobs.
package jobs

import (
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// app is the program, with the commands of this package as methods.
type app struct{ *cli.App }

// Command returns "tenet jobs".
func Command(a *cli.App) *cobra.Command { return (&app{a}).jobsCommand() }

// EnqueueCommand returns "tenet enqueue".
func EnqueueCommand(a *cli.App) *cobra.Command { return (&app{a}).enqueueCommand() }
