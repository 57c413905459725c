// Package dlq looks at, requeues and purges dead jobs.
package dlq

import (
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// app is the program, with the commands of this package as methods.
type app struct{ *cli.App }

// Command returns "tenet dlq".
func Command(a *cli.App) *cobra.Command { return (&app{a}).dlqCommand() }
