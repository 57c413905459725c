package open

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/server/client"
)

type targetKey struct{}

// ServerFlags adds --server and --token to a command that works with a server as it does with a store.
func ServerFlags(cmd *cobra.Command) {
	cmd.Flags().String("server", "", "use this server instead of a store, for example https://tenet.example.com (also TENET_SERVER)")
	cmd.Flags().String("token", "", "token for the server (also TENET_TOKEN)")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		ctx, err := WithServer(cmd.Context(), cmd)
		cmd.SetContext(ctx)
		return err
	}
}

// WithServer returns a context with the server of a command's flags, if they name one. A store on the command line goes before
// a server in the environment.
func WithServer(ctx context.Context, cmd *cobra.Command) (context.Context, error) {
	url := Text(cmd, "server")
	byServer, byStore := cli.Given(cmd, "server"), cli.Given(cmd, "store")
	switch {
	case byServer && byStore:
		return ctx, cli.Usagef("--store and --server: give one of them")
	case url == "" || byStore:
		return ctx, nil
	}
	o := client.Options{URL: url, Token: Text(cmd, "token")}
	for _, name := range []string{"show-secrets", "result"} { // "resolve --result" is text
		if show, err := cmd.Flags().GetBool(name); err == nil && show {
			o.Secrets = true
		}
	}
	return context.WithValue(ctx, targetKey{}, o), nil
}

// Text returns the text of a flag, or "" if the command does not have it.
func Text(cmd *cobra.Command, name string) string {
	text, _ := cmd.Flags().GetString(name)
	return text
}

// Target returns the client of the server that a command was given, or nil.
func Target(ctx context.Context) (*client.Client, error) {
	o, ok := ctx.Value(targetKey{}).(client.Options)
	if !ok {
		return nil, nil
	}
	c, err := client.New(o)
	if err != nil {
		return nil, cli.Usagef("--server: %w", err)
	}
	return c, nil
}

// serverLog is the audit log of a server.
func serverLog(c *client.Client) *AuditLog {
	log := c.Audit()
	return &AuditLog{Source: log, Name: "the log", Heads: log.Heads, close: func() error { return nil }}
}

// serverRecords are the idempotency records of a server, which records changes itself.
func serverRecords(c *client.Client) *RecordStore {
	return &RecordStore{records: c.Records(), Close: func() error { return nil }}
}
