//go:build unix

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
)

const environmentPage = "../../docs/environment.md"

// listed returns the variables of all commands with their flags.
func listed() (shared, own map[string][]string) {
	shared, own = map[string][]string{}, map[string][]string{}
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		_ = cmd.InheritedFlags() // joins them to the command's own variables
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			for _, name := range cli.Variables(cmd, f) {
				if slices.Contains(cli.SharedFlags(), f.Name) && name == "TENET_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")) {
					shared[name] = append(shared[name], cmd.CommandPath())
					continue
				}
				own[name] = append(own[name], cmd.CommandPath()+" --"+f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	a := &cli.App{Program: cli.Program{AddCommands: addCommands}}
	each(a.Root())
	return shared, own
}

func TestTheEnvironmentPageListsEveryVariable(t *testing.T) {
	shared, own := listed()
	var want strings.Builder
	want.WriteString("| variable | sets |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if len(own[name]) != 1 {
			t.Errorf("%s sets %v", name, own[name])
		}
		fmt.Fprintf(&want, "| `%s` | `%s` |\n", name, own[name][0])
	}
	const begin, end = "<!-- commands -->\n", "<!-- end -->\n"
	head, rest, found := strings.Cut(read(t, environmentPage), begin)
	table, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("the page has no part between %q and %q", begin, end)
	}
	if *update {
		writeFile(t, environmentPage, head+begin+want.String()+end+tail)
	} else if table != want.String() {
		t.Errorf("the page is not up to date: go test ./cmd/tenet -run %s -update", t.Name())
	}
	for _, name := range append(slices.Collect(maps.Keys(shared)), "TENET_SERVER", "TENET_TOKEN", command.EnvAttempt, command.EnvKey, command.EnvCallID, "TENET_TRANSACTION_ID", "TENET_JOB_ID", "NO_COLOR", "XDG_CONFIG_HOME") {
		if !strings.Contains(head+tail, "| `"+name+"` |") {
			t.Errorf("the page does not list %s", name)
		}
	}
}

func TestVariablesThatRunSetsForItsChildAreNotSettings(t *testing.T) {
	shared, own := listed()
	for _, name := range []string{command.EnvAttempt, command.EnvKey, command.EnvCallID, "TENET_TRANSACTION_ID", "TENET_JOB_ID"} {
		if shared[name] != nil || own[name] != nil {
			t.Errorf("%s sets %v%v", name, shared[name], own[name])
		}
	}
	if len(own) < 40 || len(shared) < 5 {
		t.Errorf("only %d and %d variables", len(own), len(shared))
	}
}
