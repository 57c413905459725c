package cli

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
)

// MaxConcurrency is the highest value of --concurrency.
const MaxConcurrency = 1000

// DefaultKillGrace is how long a program may run on after SIGTERM before it is killed.
const DefaultKillGrace = 5 * time.Second

// ExitZeroFlag adds --exit-zero-on-term to a command that runs until it is stopped.
func ExitZeroFlag(cmd *cobra.Command, value *bool) {
	cmd.Flags().BoolVar(value, "exit-zero-on-term", false, "exit with 0 instead of 143 after a graceful stop by SIGTERM")
}

// Stopped returns the error of a command that a signal has stopped gracefully. The signal decides the exit code; with exitZero
// the code after SIGTERM is 0.
func Stopped(ctx context.Context, exitZero bool) error {
	if i, ok := errors.AsType[command.Interrupt](context.Cause(ctx)); ok && exitZero && i.Signal == syscall.SIGTERM {
		return nil
	}
	return Exit(ExitFailed)
}
