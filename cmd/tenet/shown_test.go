package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// shownCommands are the command lines of the web UI's pages. A test of server/ui keeps the file.
const shownCommands = "../../server/ui/testdata/commands.txt"

func TestEveryCommandThatTheWebUIShowsExists(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(read(t, shownCommands)), "\n")
	if len(lines) < 50 {
		t.Errorf("%s has only %d lines", shownCommands, len(lines))
	}
	for _, line := range lines {
		for _, args := range invocations(line) {
			if err := parses(args); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	for _, wrong := range []string{"tenet jobs enqueue --type http --payload '{}'", "tenet dlq list --no-such-flag", "tenet queues pause", "tenet nothing"} {
		if err := parses(invocations(wrong)[0]); err == nil {
			t.Errorf("%s passes, so this test proves nothing", wrong)
		}
	}
}

// parses reports whether the arguments name a command, flags that it has, and as many arguments as it takes.
func parses(args []string) error {
	a := &cli.App{Program: cli.Program{AddCommands: addCommands}}
	cmd, rest, err := a.Root().Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() {
		return cobra.NoArgs(cmd, append(rest, "missing"))
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// invocations returns the arguments of each tenet in a line of a shell, which may be a pipeline or a list. The placeholder N is a
// number.
func invocations(line string) (list [][]string) {
	var words []string
	end := func() {
		if at := slices.Index(words, "tenet"); at >= 0 {
			list = append(list, words[at+1:])
		}
		words = nil
	}
	for _, word := range shellWords(line) {
		switch word {
		case "|", "&&":
			end()
		case "N":
			words = append(words, "5")
		default:
			words = append(words, word)
		}
	}
	end()
	for i, args := range list {
		if at := slices.Index(args, ">"); at >= 0 {
			list[i] = args[:at]
		}
	}
	return list
}

// shellWords splits a line at blanks outside single quotes; a backslash keeps the next character.
func shellWords(line string) (words []string) {
	var word strings.Builder
	var in, quoted, escaped bool
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\'':
			in, quoted = true, !quoted
		case r == '\\' && !quoted:
			in, escaped = true, true
		case r == ' ' && !quoted:
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			in = true
			word.WriteRune(r)
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}
