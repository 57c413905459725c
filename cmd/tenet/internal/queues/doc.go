// Package queues lists, pauses and resumes queues.
package queues

import (
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// app is the program, with the commands of this package as methods.
type app struct{ *cli.App }

// Command returns "tenet queues".
func Command(a *cli.App) *cobra.Command { return (&app{a}).queuesCommand() }
