package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestTextOfCobraThatCannotBeWrittenFails: help, the version and completions fail like every other output.
func TestTextOfCobraThatCannotBeWrittenFails(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help", "version"}, {"version", "--help"}, {"--version"}, {"version"}, {"completion", "bash"}} {
		var stderr strings.Builder
		closed, full := io.Pipe()
		_ = closed.Close()
		p := Program{Args: args, Stdout: full, Stderr: &stderr, AddCommands: func(*App, *cobra.Command) {}}
		if code := p.Run(t.Context()); code != ExitFailed || stderr.String() != "tenet: "+io.ErrClosedPipe.Error()+"\n" {
			t.Errorf("%q: exit code %d, stderr %q", args, code, stderr.String())
		}
	}
}
