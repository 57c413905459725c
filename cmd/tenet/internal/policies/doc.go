// Package policies checks, shows and imports policy documents.
package policies

import (
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// app is the program, with the commands of this package as methods.
type app struct{ *cli.App }

// Command returns "tenet policy".
func Command(a *cli.App) *cobra.Command { return (&app{a}).policyCommand() }
