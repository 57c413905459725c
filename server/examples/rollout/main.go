package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/controlplane"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/client"
)

// The revisions: the card service answers two of three calls, so that one attempt is not enough.
const (
	first    = "version: 1\npolicies:\n  cards.Charge: {retry: {max_attempts: 3, backoff: 0.001}}\n"
	harmful  = "version: 1\npolicies:\n  cards.Charge: {retry: {max_attempts: 1}}\n"
	harmless = "version: 1\npolicies:\n  cards.Charge: {retry: {max_attempts: 4, backoff: 0.001}}\n"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run starts a server on this machine, and the services.
func run(ctx context.Context) error {
	s, closeServer, err := newServer(ctx)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(err, closeServer())
	}
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(serving, listener) }()
	err = story{out: os.Stdout, url: "http://" + listener.Addr().String(), http: &http.Client{}}.tell(ctx)
	stop()
	return errors.Join(err, <-done, closeServer())
}

// newServer makes a server on stores in memory.
func newServer(ctx context.Context) (s *server.Server, closeServer func() error, err error) {
	db, sink := memory.Open(), &audit.MemorySink{}
	actions, err := audit.Open(ctx, sink, audit.Options{})
	if err != nil {
		return nil, nil, err
	}
	s, err = server.New(ctx, server.Options{
		Stores: server.Stores{Jobs: db.Jobs(), Records: db.Idempotency(), Audit: sink, Policies: db.Policies()}, Log: actions,
		Logger: slog.New(slog.DiscardHandler),
	})
	return s, func() error { return errors.Join(actions.Close(context.WithoutCancel(ctx)), db.Close()) }, err
}

// story is what happens with a server.
type story struct {
	out  io.Writer
	url  string
	http *http.Client
}

func (s story) tell(ctx context.Context) (err error) {
	c, err := client.New(client.Options{URL: s.url, HTTP: s.http})
	if err != nil {
		return err
	}
	documents := c.Documents()
	if _, err := documents.Publish(ctx, client.Target{Name: "shop"}, api.Publish{Body: first, Message: "three attempts"}); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "revision 1 is in force")
	running, stop := context.WithCancel(ctx)
	services := make(chan error, 20)
	started := 0
	defer func() {
		stop()
		for range started {
			err = errors.Join(err, <-services)
		}
	}()
	for _, name := range []string{"checkout", "billing"} {
		for i := range 10 {
			started++
			go func() { services <- s.service(running, name, fmt.Sprintf("%s-%d", name, i)) }()
		}
	}
	for _, next := range []struct{ body, message string }{{harmful, "one attempt"}, {harmless, "four attempts"}} {
		d, err := documents.Get(ctx, "shop")
		if err != nil {
			return err
		}
		plan := &api.Plan{Steps: []api.Step{{Share: 0.5, Hold: 5, MinSamples: 200}}}
		p, err := documents.Publish(ctx, client.Target{Name: "shop", Base: d.Current}, api.Publish{Body: next.body, Message: next.message, Rollout: plan})
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "revision %d (%s) reaches half of the instances\n", p.Revision, next.message)
		if err := s.end(ctx, documents); err != nil {
			return err
		}
	}
	return nil
}

// end waits for the end of the rollout.
func (s story) end(ctx context.Context, documents *client.Documents) error {
	for {
		status, err := documents.Rollout(ctx, "shop")
		if err != nil {
			return err
		}
		if r := status.Rollout; r.State.Ended() {
			d, err := documents.Get(ctx, "shop")
			fmt.Fprintf(s.out, "revision %d: %s (%s); revision %d is in force\n", r.Candidate, r.State, r.Judgement.Reason, d.Current)
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// service is an instance of a service: it follows the document, and charges cards under its policy.
func (s story) service(ctx context.Context, service, instance string) (err error) {
	policies, err := controlplane.NewServer(controlplane.ServerOptions{
		URL: s.url, Document: "shop", Client: s.http, ClientID: instance, Labels: map[string]string{"service": service},
		ReportInterval: time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, policies.Close()) }()
	executor := retry.NewExecutor(retry.ExecutorOptions{Provider: policies, Observer: policies.Observer()})
	calls := 0
	for ctx.Err() == nil {
		_ = executor.Do(ctx, policy.ParseKey("cards.Charge"), func(context.Context) error {
			if calls++; calls%3 == 0 {
				return errors.New("the card service did not answer")
			}
			return nil
		}) // what fails is counted, and the server judges by it
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
