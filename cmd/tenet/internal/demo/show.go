package demo

import (
	"context"
	"errors"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/serve"
	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/ui"
)

// show is the web UI of the demo's store.
type show struct {
	url   string
	close func() error
}

// showUI serves a store's web UI until it is closed.
func showUI(ctx context.Context, a *cli.App, address string, all *open.All) (*show, error) {
	log, closeLog, err := open.LogOn(ctx, a, all.Log, func() error { return nil })
	if err != nil {
		return nil, err
	}
	s, err := serve.New(ctx, server.Options{
		Stores: server.Stores{Jobs: all.Jobs, Records: all.Records, Audit: all.Log, Policies: all.Policies}, Log: log, Logger: a.Logger(a.Stderr, false),
	}, &ui.Options{})
	if err != nil {
		return nil, errors.Join(err, closeLog())
	}
	listener, err := cli.Listen(ctx, address)
	if err != nil {
		return nil, errors.Join(err, closeLog())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done, ready := make(chan error, 1), make(chan struct{})
	go func() { done <- s.Run(running, &serve.Announced{Listener: listener, Ready: func() { close(ready) }}) }()
	select {
	case <-ready:
	case err := <-done:
		stop()
		return nil, errors.Join(err, closeLog())
	}
	url := "http://" + listener.Addr().String() + "/ui/"
	a.Note("", "web UI: %s", url)
	return &show{url, func() error {
		stop()
		return errors.Join(<-done, closeLog())
	}}, nil
}
