// Package pipelines is the commands of consumers and producers.
package pipelines

import (
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// app is the program, with the commands of this package as methods.
type app struct{ *cli.App }

// Commands returns "tenet consume", "tenet produce" and "tenet pipeline".
func Commands(a *cli.App) []*cobra.Command {
	p := &app{a}
	return []*cobra.Command{p.consumeCommand(), p.produceCommand(), p.pipelineCommand()}
}
