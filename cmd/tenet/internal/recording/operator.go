package recording

import (
	"context"
	"errors"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/internal/operation"
)

// OperatorFlag adds --audit to a command with which operators change jobs.
func OperatorFlag(cmd *cobra.Command) *string {
	return open.LogFlag(cmd, "audit log that records who does this, before it is done")
}

// Put records an operator's action in the log at url before it happens. Without a URL it does nothing. If it fails, the action
// must not happen.
func Put(ctx context.Context, a *cli.App, url string, o audit.Operation) error {
	if url == "" {
		return nil
	}
	log, closeLog, err := open.Log(ctx, a, url)
	if err != nil {
		return err
	}
	return errors.Join(Record(ctx, log, o), closeLog())
}

// Record records an operator's action before it happens. If it fails, the action must not happen.
func Record(ctx context.Context, log *audit.Log, o audit.Operation) error {
	o.Actor = Actor()
	return operation.Record(ctx, log, o)
}

// Actor returns the user and host that run this program.
func Actor() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}
