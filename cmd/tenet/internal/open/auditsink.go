package open

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// AuditFlag adds --audit to a command that records what it decides.
func AuditFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("audit", "", "record every decision here before it takes effect: file:PATH, sqlite:PATH, postgres://… or nats://… (also TENET_AUDIT)")
}

// CloseTime bounds how long a command waits at its end for its audit log.
const CloseTime = 30 * time.Second

// Log starts an audit log that fails closed. close ends it and its sink; what could not be stored is an error.
func Log(ctx context.Context, a *cli.App, url string) (log *audit.Log, closeLog func() error, err error) {
	sink, err := openSink(ctx, a, url)
	if err != nil {
		return nil, nil, err
	}
	return LogOn(ctx, sink, sink.Close)
}

func LogOn(ctx context.Context, sink audit.Sink, closeSink func() error) (*audit.Log, func() error, error) {
	log, err := audit.Open(ctx, sink, audit.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, closeSink())
	}
	return log, func() error {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), CloseTime)
		defer cancel()
		return errors.Join(log.Close(patience), closeSink())
	}, nil
}

// storedSink is a sink in a database of its own connection.
type storedSink struct {
	audit.Sink
	close func() error
}

// Close ends the sink and its database.
func (s storedSink) Close() error { return errors.Join(s.Sink.Close(), s.close()) }

// openSink opens what an audit log is written to. A missing file is made.
func openSink(ctx context.Context, a *cli.App, url string) (audit.Sink, error) {
	kind, rest, ok := strings.Cut(url, ":")
	if !ok || rest == "" {
		return nil, cli.Usagef("--audit names no log; write file:PATH, sqlite:PATH, postgres://… or nats://…")
	}
	if kind == "file" {
		path := strings.TrimPrefix(rest, "//")
		sink, err := audit.OpenFile(path, audit.FileOptions{})
		if err != nil {
			return nil, fmt.Errorf("--audit %s: %w", url, cli.NotMade(path, err))
		}
		return sink, nil
	}
	if kind == "memory" {
		return nil, cli.Usagef("--audit %s: an audit log in memory proves nothing; write file:PATH, sqlite:PATH, postgres://… or nats://…", url)
	}
	s, err := Records(ctx, a, "audit", url, true)
	if err != nil {
		return nil, err
	}
	return storedSink{s.Audit, s.Close}, nil
}
