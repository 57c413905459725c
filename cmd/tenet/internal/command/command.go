package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/procgroup"
	"github.com/tenetdev/tenet/retry"
)

// The environment of every attempt.
const (
	EnvAttempt = "TENET_ATTEMPT" // its number, from 1
	EnvKey     = "TENET_KEY"
	EnvCallID  = "TENET_CALL_ID"
)

// Command is a program to run. It must not be changed while it runs. Attempts of one Command must not overlap, because
// they share input and output.
type Command struct {
	Argv []string
	// Input is passed to every attempt from its beginning. Nil means no input.
	Input          *Input
	Stdout, Stderr io.Writer
	// Grace is how long the process group may take to end after SIGTERM before it is killed. 0 kills at once.
	Grace time.Duration
	// Kill kills the process group at once when it is closed. May be nil.
	Kill <-chan struct{}
}

// outputGrace is how long output is copied after the program has ended, if a process that it left behind keeps the output
// open. Files and terminals need no copying.
const outputGrace = 250 * time.Millisecond

// Run runs the program once, for the attempt that ctx belongs to.
func (c *Command) Run(ctx context.Context) error {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...) // not CommandContext, which would only stop the process and not its group
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.Stdout, c.Stderr, outputGrace
	cmd.Env = inherited(os.Environ())
	if a, ok := retry.AttemptFromContext(ctx); ok {
		cmd.Env = append(cmd.Env, EnvAttempt+"="+strconv.Itoa(a.Number), EnvKey+"="+a.Key.String(), EnvCallID+"="+a.CallID())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	feed, err := c.Input.attach(cmd)
	if err != nil {
		return classify.Permanent(err)
	}
	defer feed.stop()
	began := time.Now()
	group, err := procgroup.Start(cmd)
	if err != nil {
		start := &StartError{Name: c.Argv[0], err: err}
		if start.temporary() {
			return start
		}
		return classify.Permanent(start)
	}
	feed.start(cancel)
	stopped := false
	err = group.Wait(ctx, c.Kill, func() procgroup.Stop {
		stopped = true
		return procgroup.Stop{Signal: signalOf(ctx), Grace: c.Grace}
	})
	if stopped {
		return ended(ctx, time.Since(began))
	}
	return exitError(err)
}

var errKilled = errors.New("killed at once")

// ended returns the error of an attempt that was stopped. The program's exit code does not count: its work was cut short.
func ended(ctx context.Context, after time.Duration) error {
	if interrupt, ok := errors.AsType[Interrupt](context.Cause(ctx)); ok {
		return interrupt
	}
	if input, ok := errors.AsType[*inputError](context.Cause(ctx)); ok {
		return classify.Permanent(input)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &TimeoutError{After: after}
	}
	return fmt.Errorf("stopped: %w", cmp.Or(context.Cause(ctx), errKilled))
}

func signalOf(ctx context.Context) syscall.Signal {
	if interrupt, ok := errors.AsType[Interrupt](context.Cause(ctx)); ok {
		return interrupt.Signal
	}
	return syscall.SIGTERM
}

// ownSettings is the prefix of variables that configure the run itself.
const ownSettings = "TENET_RUN_"

// inherited returns the part of an environment that programs inherit: without the settings of this run, which must not
// configure a nested one.
func inherited(environment []string) []string {
	return slices.DeleteFunc(environment, func(s string) bool { return strings.HasPrefix(s, ownSettings) })
}
