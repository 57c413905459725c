// Package run runs a command under a policy.
package run

import (
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// app is the program, with the commands of this package as methods.
type app struct{ *cli.App }

// Command returns "tenet run".
func Command(a *cli.App) *cobra.Command { return (&app{a}).runCommand() }
