// Package records reads, resolves and clears idempotency records.
package records

import (
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// app is the program, with the commands of this package as methods.
type app struct{ *cli.App }

// Command returns "tenet idempotency".
func Command(a *cli.App) *cobra.Command { return (&app{a}).idempotencyCommand() }
