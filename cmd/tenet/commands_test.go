package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// leaves returns the commands with an action by their paths, without help and completion, which the flag library adds.
func leaves() map[string]*cobra.Command {
	found := map[string]*cobra.Command{}
	var each func(*cobra.Command)
	each = func(cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			return
		}
		if !cmd.HasSubCommands() {
			found[cmd.CommandPath()] = cmd
		}
		for _, sub := range cmd.Commands() {
			each(sub)
		}
	}
	a := &cli.App{Program: cli.Program{AddCommands: addCommands}}
	each(a.Root())
	return found
}

func TestEveryCommandThatChangesSomethingHasADryRun(t *testing.T) {
	reads := []string{ // or writes only a file that it is asked to create
		"tenet limits list",
		"tenet audit explain", "tenet audit head", "tenet audit query", "tenet audit replay", "tenet audit stats", "tenet audit tail", "tenet audit verify", "tenet demo",
		"tenet dlq list", "tenet idempotency get", "tenet idempotency list", "tenet jobs inspect", "tenet jobs list", "tenet jobs search", "tenet jobs stats", "tenet migrate status",
		"tenet periodic check", "tenet periodic list", "tenet pipeline check", "tenet policy catalog", "tenet policy check", "tenet policy delays",
		"tenet clients list", "tenet policy compare", "tenet policy get", "tenet policy revisions", "tenet policy rollout show", "tenet policy trial show", "tenet server", "tenet token list",
		"tenet policy import aws", "tenet policy import dapr", "tenet policy import envoy", "tenet policy import gateway-api", "tenet policy import grpc",
		"tenet policy import istio", "tenet policy import resilience4j", "tenet policy limits", "tenet policy diff", "tenet policy list", "tenet policy prove",
		"tenet audit extract", "tenet clients mechanisms", "tenet clients pipelines", "tenet flows inspect", "tenet flows list", "tenet jobs watch", "tenet limits list", "tenet map", "tenet policy schema", "tenet policy show", "tenet queues list", "tenet redrives inspect", "tenet redrives list", "tenet simulate", "tenet version",
	}
	destructive := []string{"tenet dlq purge", "tenet dlq requeue", "tenet jobs delete", "tenet migrate down", "tenet idempotency clear"}
	for path, cmd := range leaves() {
		if !slices.Contains(reads, path) && cmd.Flags().Lookup("dry-run") == nil {
			t.Errorf("%s has no --dry-run", path)
		}
		if slices.Contains(destructive, path) && cmd.Flags().Lookup("yes") == nil {
			t.Errorf("%s has no --yes", path)
		}
	}
	for _, path := range destructive {
		if leaves()[path] == nil {
			t.Errorf("command %s does not exist", path)
		}
	}
}

func TestEveryCommandNamesArgumentsOfAWrongNumber(t *testing.T) {
	for path, cmd := range leaves() {
		for n := range 6 {
			err := cmd.ValidateArgs(strings.Fields("a b c d e")[:n])
			if err != nil && !strings.Contains(err.Error(), "write") {
				t.Errorf("%s with %d arguments: %v; want what to write instead", path, n, err)
			}
		}
	}
}

func TestEveryCommandThatPrintsDataHasAnOutputFlag(t *testing.T) {
	others := []string{
		"tenet run", "tenet server", "tenet worker", // print the output of their commands and jobs
		"tenet audit extract", "tenet policy fmt", // print a file
	}
	for path, cmd := range leaves() {
		if !slices.Contains(others, path) && cmd.Flags().Lookup("output") == nil {
			t.Errorf("%s has no --output", path)
		}
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	for path, cmd := range leaves() {
		if cmd.Short == "" || cmd.Example == "" {
			t.Errorf("%s has no short help or no example", path)
		}
		_, example, _ := strings.Cut(cmd.Example, path+" ") // the first one
		example, _, _ = strings.Cut(example, "\n")
		for _, word := range strings.Fields(example) {
			if word == "--" {
				break
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
			if strings.HasPrefix(word, "--") && cmd.Flag(name) == nil {
				t.Errorf("the example of %s has %s, which is not a flag", path, word)
			}
		}
	}
}

func TestOnlyAShellThatCompletesWaitsForCompletions(t *testing.T) {
	for _, args := range [][]string{{"jobs", "list"}, {cobra.ShellCompRequestCmd, "jobs", "list"}, {cobra.ShellCompNoDescRequestCmd, "jobs", "list"}} {
		a := &cli.App{Program: cli.Program{Args: args, AddCommands: addCommands}}
		cmd, _, err := a.Root().Find([]string{"jobs", "list"})
		if err != nil {
			t.Fatal(err)
		}
		if _, registered := cmd.GetFlagCompletionFunc("queue"); registered != (args[0] != "jobs") {
			t.Errorf("%v: the completion of --queue is registered: %v", args, registered)
		}
	}
}
