package open

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/observe"
)

// LogFlag adds --audit to a command; what is the beginning of its usage text.
func LogFlag(cmd *cobra.Command, what string) *string {
	return cmd.Flags().String("audit", "", what+": "+UseLog.Forms()+" (also TENET_AUDIT)")
}

// DecisionLogFlag adds --audit to a command that records its decisions.
func DecisionLogFlag(cmd *cobra.Command) *string {
	return LogFlag(cmd, "record every decision here before it takes effect")
}

// CloseTime is how long a command waits for its audit log at its end, and fullTime where the disk is full, which waiting does not mend.
const (
	CloseTime = 30 * time.Second
	fullTime  = 2 * time.Second // enough for one more attempt
)

// Log opens the audit log of --audit, which fails closed, and creates a missing file. closeLog closes it and its sink, and
// returns an error if events could not be stored.
func Log(ctx context.Context, a *cli.App, url string) (log *audit.Log, closeLog func() error, err error) {
	r := Ref{Flag: "audit", URL: url, Use: UseLog}
	at, _, err := r.locate()
	if err != nil {
		return nil, nil, err
	}
	if at.scheme == schemeFile {
		sink, err := audit.OpenFile(at.path, audit.FileOptions{})
		if err != nil {
			return nil, nil, fmt.Errorf("--audit %s: %w", url, cli.NotMade(at.path, err))
		}
		return LogOn(ctx, a, sink, sink.Close)
	}
	s, err := Records(ctx, a, r, true)
	if err != nil {
		return nil, nil, err
	}
	return LogOn(ctx, a, s.Audit, func() error { return errors.Join(s.Audit.Close(), s.Close()) })
}

// LogOn opens an audit log on a sink that closeSink closes. It logs when the sink begins to fail: nothing starts meanwhile.
func LogOn(ctx context.Context, a *cli.App, sink audit.Sink, closeSink func() error) (*audit.Log, func() error, error) {
	log, err := audit.Open(ctx, sink, audit.Options{Reports: observe.Slog(a.Logger(a.Stderr, false))})
	if err != nil {
		return nil, nil, errors.Join(err, closeSink())
	}
	return log, func() error {
		within := CloseTime
		if failing := log.Stats().Failing; errors.Is(failing, syscall.ENOSPC) || errors.Is(failing, syscall.EDQUOT) {
			within = fullTime
		}
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), within, fmt.Errorf("audit: gave the log up after %s", within))
		defer cancel()
		return errors.Join(log.Close(ctx), closeSink())
	}, nil
}
