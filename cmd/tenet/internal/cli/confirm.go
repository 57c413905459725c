package cli

import (
	"bufio"
	"context"
	"errors"
	"strings"
)

// Confirm asks the user to confirm a change that cannot be undone, or that is wider than the user may expect. Without a
// terminal it requires --yes.
func (a *App) Confirm(ctx context.Context, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	question := Textf(format, args...)
	if !IsTerminal(a.Stdin) {
		return Usagef("%s There is no terminal to ask on: add --yes, or --dry-run to see what it would do", question)
	}
	Fprintf(a.Stderr, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // goes on in the background if ctx ends first
		line, _ := bufio.NewReader(a.Stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		if word := strings.ToLower(strings.TrimSpace(line)); word == "y" || word == "yes" {
			return nil
		}
		return Fail(exitNotAllowed, errors.New("not confirmed; nothing was changed"))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
