package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/files"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/retry"
)

// openTimeline opens the output of the timeline before the first attempt, and returns the function that writes it.
func openTimeline(ctx context.Context, a *cli.App, f *runFlags) (func(observe.Timeline) error, error) {
	form, to := f.timeline, a.Stderr
	if f.timelineFile == "" && form == "" {
		return func(observe.Timeline) error { return nil }, nil
	}
	finish := func() error { return nil }
	if f.timelineFile != "" {
		file, err := timelineFile(ctx, f.timelineFile)
		if err != nil {
			return nil, fmt.Errorf("--timeline-file: %w", cli.NotMade(f.timelineFile, err))
		}
		to, finish = file, file.Close
	}
	return func(t observe.Timeline) error {
		text := t.String()
		if form != cli.FormText {
			line, err := json.Marshal(t)
			if err != nil {
				return err
			}
			text = string(line) + "\n"
		}
		_, err := io.WriteString(to, text)
		return errors.Join(err, finish())
	}, nil
}

// timelineFile opens a file and empties it, or opens a pipe or a device.
func timelineFile(ctx context.Context, path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return openPipe(ctx, path)
	}
	file, err := files.OpenPrivate(path)
	switch {
	case errors.Is(err, files.ErrNotRegular):
		return os.OpenFile(path, os.O_WRONLY, 0)
	case err != nil:
		return nil, err
	}
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// openPipe opens a pipe for writing. Until ctx ends it waits for the pipe's reader, which may start later.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if !errors.Is(err, syscall.ENXIO) {
			return file, err
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("%s is a pipe that nobody reads: start its reader, or name a file: %w", path, err)
		}
	}
}

// sentence returns a one-line error that says why a run failed.
func sentence(t observe.Timeline, err error) error {
	failed, ok := errors.AsType[*retry.Error](err)
	if !ok {
		return err
	}
	text := fmt.Sprintf("%s failed after %s in %s: %s", t.Key, cli.Count(failed.Attempts, "attempt"), cli.Brief(t.End.Sub(t.Start)), failed.Reason)
	if because := cmp.Or(failed.Last, failed.Cause); because != nil {
		return fmt.Errorf("%s: %w", text, because)
	}
	return errors.New(text)
}

// printAttempt prints a line about each attempt, wait and report.
func printAttempt(a *cli.App, e *observe.Event) {
	prefix := a.Paint(a.Stderr, cli.Cyan, "tenet:")
	switch e.Type {
	case observe.AttemptEnded:
		r := e.Attempt
		switch {
		case r.Denied:
			cli.Fprintf(a.Stderr, "%s attempt %d refused: %s\n", prefix, r.Attempt, r.Outcome.Reason)
		case r.Err != nil:
			cli.Fprintf(a.Stderr, "%s attempt %d failed after %s: %v\n", prefix, r.Attempt, cli.Brief(r.End.Sub(r.Start)), r.Err)
		default:
			cli.Fprintf(a.Stderr, "%s attempt %d succeeded after %s\n", prefix, r.Attempt, cli.Brief(r.End.Sub(r.Start)))
		}
	case observe.Decided:
		if v := e.Decision.Verdict; v.Delay > 0 {
			cli.Fprintf(a.Stderr, "%s next attempt in %s\n", prefix, cli.Brief(v.Delay))
		}
	case observe.Reported:
		cli.Fprintf(a.Stderr, "%s %s: %s\n", prefix, e.Report.Reason, e.Report.Detail)
	}
}

// printShadow prints what the policy under trial decides, where it differs.
func printShadow(a *cli.App, e *observe.Event) {
	if e.Type != observe.Decided || e.Decision.Shadow == nil {
		return
	}
	in := func(v decision.Verdict) string {
		if v.Action == decision.Retry {
			return "retry after " + v.Delay.String()
		}
		return v.Action.String() + " (" + string(v.Reason) + ")"
	}
	a.Note("shadow:", "attempt %d: %s; under trial: %s", e.Decision.Attempt, in(e.Decision.Verdict), in(e.Decision.Shadow.Verdict))
}
