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

// serverEnd is a source or sink on a server, with the adapter's options from the URL.
type serverEnd[O any] struct {
	server  string
	options O
	from    func(ctx context.Context, server string, o O) (SourceCloser, error)
	to      func(ctx context.Context, server string, o O) (SinkCloser, error)
}

func (e *serverEnd[O]) source(ctx context.Context, _ *cli.App, _ *slog.Logger) (SourceCloser, error) {
	return e.from(ctx, e.server, e.options)
}

func (e *serverEnd[O]) sink(ctx context.Context, _ *cli.App, _ SinkOptions) (SinkCloser, error) {
	return e.to(ctx, e.server, e.options)
}

func parseTable(at location) (end, error) {
	server, o, err := pgpipe.ParseURL(at.URL)
	return &serverEnd[pgpipe.Options]{server, o, func(ctx context.Context, server string, o pgpipe.Options) (SourceCloser, error) {
		if o.Consumer != "" {
			return pgpipe.OpenOutbox(ctx, server, o)
		}
		return pgpipe.OpenQueue(ctx, server, o)
	}, func(ctx context.Context, server string, o pgpipe.Options) (SinkCloser, error) {
		return pgpipe.OpenSink(ctx, server, o)
	}}, err
}

func parseStream(at location) (end, error) {
	server, o, err := natspipe.ParseURL(at.URL)
	return &serverEnd[natspipe.Options]{server, o, func(ctx context.Context, server string, o natspipe.Options) (SourceCloser, error) {
		return natspipe.OpenSource(ctx, server, o)
	}, func(ctx context.Context, server string, o natspipe.Options) (SinkCloser, error) {
		return natspipe.OpenSink(ctx, server, o)
	}}, err
}

func parseQueue(at location) (end, error) {
	server, o, err := rabbitmq.ParseURL(at.URL)
	return &serverEnd[rabbitmq.Options]{server, o, func(ctx context.Context, server string, o rabbitmq.Options) (SourceCloser, error) {
		return rabbitmq.OpenSource(ctx, server, o)
	}, func(ctx context.Context, server string, o rabbitmq.Options) (SinkCloser, error) {
		return rabbitmq.OpenSink(ctx, server, o)
	}}, err
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
