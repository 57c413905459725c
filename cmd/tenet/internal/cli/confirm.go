package cli

import (
	"bufio"
	"context"
	"errors"
	"strings"
)

// Confirm asks before something that cannot be undone or that is easily meant for less. Without a terminal --yes must have
// said it.
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
	go func() { // left behind when ctx ends first
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
