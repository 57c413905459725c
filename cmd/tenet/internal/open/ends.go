package open

import (
	"context"
	"errors"
	"log/slog"

	"github.com/tenetdev/tenet/adapter/http/httpsink"
	"github.com/tenetdev/tenet/adapter/nats/natspipe"
	"github.com/tenetdev/tenet/adapter/postgres/pgpipe"
	"github.com/tenetdev/tenet/adapter/rabbitmq"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// serverEnd is a source or sink on a server.
type serverEnd struct {
	from func(context.Context) (SourceCloser, error)
	to   func(context.Context) (SinkCloser, error)
}

func (e serverEnd) source(ctx context.Context, _ *cli.App, _ *slog.Logger) (SourceCloser, error) {
	return e.from(ctx)
}

func (e serverEnd) sink(ctx context.Context, _ *cli.App, _ SinkOptions) (SinkCloser, error) {
	return e.to(ctx)
}

func parseTable(at location) (end, error) {
	server, o, err := pgpipe.ParseURL(at.URL)
	return serverEnd{
		func(ctx context.Context) (SourceCloser, error) {
			if o.Consumer != "" {
				return pgpipe.OpenOutbox(ctx, server, o)
			}
			return pgpipe.OpenQueue(ctx, server, o)
		},
		func(ctx context.Context) (SinkCloser, error) { return pgpipe.OpenSink(ctx, server, o) },
	}, err
}

func parseStream(at location) (end, error) {
	server, o, err := natspipe.ParseURL(at.URL)
	return serverEnd{
		func(ctx context.Context) (SourceCloser, error) { return natspipe.OpenSource(ctx, server, o) },
		func(ctx context.Context) (SinkCloser, error) { return natspipe.OpenSink(ctx, server, o) },
	}, err
}

func parseQueue(at location) (end, error) {
	server, o, err := rabbitmq.ParseURL(at.URL)
	return serverEnd{
		func(ctx context.Context) (SourceCloser, error) { return rabbitmq.OpenSource(ctx, server, o) },
		func(ctx context.Context) (SinkCloser, error) { return rabbitmq.OpenSink(ctx, server, o) },
	}, err
}

// httpEnd is a URL that transactions are posted to.
type httpEnd struct{ url string }

func parseHTTP(at location) (end, error) {
	sink, err := httpsink.New(at.URL, httpsink.Options{})
	if err != nil {
		return nil, err
	}
	return httpEnd{at.URL}, sink.Close()
}

func (httpEnd) source(context.Context, *cli.App, *slog.Logger) (SourceCloser, error) {
	return nil, errors.New("HTTP can only be written to")
}

// sink posts to any network: the address is the operator's own.
func (e httpEnd) sink(_ context.Context, _ *cli.App, o SinkOptions) (SinkCloser, error) {
	return httpsink.New(e.url, httpsink.Options{AllowPrivateNetworks: true, Timeout: o.Timeout})
}
