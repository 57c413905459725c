package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/adapter/http/httpjob"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/cmd/tenet/internal/periodic"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/server"
	"github.com/tenetdev/tenet/server/ui"
)

// serverFlags are the flags of "server".
type serverFlags struct {
	store, listen, audit, periodic string
	cert, key                      string
	people                         peopleFlags
	readOnly, insecure, worker     bool
	migrate, exitZero, noUI        bool
}

// Command returns "tenet server".
func Command(a *cli.App) *cobra.Command {
	f := &serverFlags{}
	cmd := &cobra.Command{
		Use: "server --store URL", Short: "Serve a store and policy documents over HTTP, with a web UI", Args: cobra.NoArgs,
		Long: `Serve a store over HTTP: jobs, queues, idempotency records, the audit log, policy documents, the programs that follow them,
and tokens. Any number of servers can run on one store. A missing SQLite store is created. When the server is ready it
prints its address on stderr: listening on URL. The web UI is at URL/ui/; people sign in there with a token or OpenID
Connect.

Make a token before other machines reach the server (tenet token create NAME --scopes admin). A server without tokens and
without OpenID Connect allows everything to everybody on this machine and refuses any other address, unless --insecure
is given.

The audit log of the store records every change, and who made it, before the change is made; --audit records them
in another log instead.

SIGTERM and SIGINT end the server: it accepts no more requests, those in flight may finish for 20 seconds.`,
		Example: `  tenet server --store sqlite:tenet.db
  tenet server --store postgres://localhost/app --listen :8443 --tls-cert server.pem --tls-key server.key`,
	}
	flags := cmd.Flags()
	store := open.StoreFlag(cmd)
	flags.StringVar(&f.listen, "listen", "127.0.0.1:7070", "address to listen on, as host:port; port 0 is any free one")
	flags.StringVar(&f.cert, "tls-cert", "", "file of the certificate chain (PEM); serves HTTPS, and is read again when it changes")
	flags.StringVar(&f.key, "tls-key", "", "file of the certificate's private key (PEM)")
	f.people.add(cmd)
	flags.StringVar(&f.periodic, "periodic", "", "file of the periodic jobs that the server lists, and runs on request; see tenet periodic --help")
	flags.BoolVar(&f.readOnly, "read-only", false, "refuse every change")
	flags.BoolVar(&f.insecure, "insecure", false, "let everybody who reaches the server do everything, until there is a token")
	flags.BoolVar(&f.worker, "embed-worker", false, "also run the jobs of type http in the queue default; for more, run tenet worker")
	flags.BoolVar(&f.noUI, "no-ui", false, "serve the HTTP API only, without the web UI at /ui/")
	flags.BoolVar(&f.migrate, "migrate", false, "create or update the tables on PostgreSQL first")
	log := open.LogFlag(cmd, "audit log that records changes instead of the store's own")
	cli.ExitZeroFlag(cmd, &f.exitZero)
	return cli.WithRun(cmd, func(cmd *cobra.Command, _ []string) error {
		f.store, f.audit = *store, *log
		return f.run(cmd.Context(), a)
	})
}

func (f *serverFlags) run(ctx context.Context, a *cli.App) (err error) {
	o := server.Options{ReadOnly: f.readOnly, Insecure: f.insecure, Logger: a.Logger(a.Stderr, false)}
	if o.TLS, err = f.tls(o.Logger); err != nil {
		return err
	}
	if o.OIDC, err = f.people.options(ctx, a); err != nil {
		return err
	}
	if o.Periodic, err = periodic.Read(ctx, a, f.periodic); err != nil {
		return err
	}
	all, err := open.Everything(ctx, a, open.Options{URL: f.store, Create: true, Migrate: f.migrate})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	o.Stores = server.Stores{Jobs: all.Jobs, Records: all.Records, Audit: all.Log, Policies: all.Policies}
	log, closeLog, err := f.log(ctx, a, all)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	o.Log = log
	pages := &ui.Options{Store: shownStore(f.store)}
	if f.noUI {
		pages = nil
	}
	s, err := New(ctx, o, pages)
	if err != nil {
		return err
	}
	listener, err := cli.Listen(ctx, f.listen)
	if err != nil {
		return err
	}
	return f.serve(ctx, a, serving{s, listener, all.Jobs, o})
}

// shownStore is how pages name the store. The URL of a database may hold a password and is not shown.
func shownStore(store string) string {
	path, ok := strings.CutPrefix(store, "sqlite:")
	if !ok {
		return ""
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return store
	}
	return "sqlite:" + full
}

// New makes a server, with the web UI under /ui/ unless pages is nil.
func New(ctx context.Context, o server.Options, pages *ui.Options) (*server.Server, error) {
	s, err := server.New(ctx, o)
	if err != nil || pages == nil {
		return s, err
	}
	pages.Logger = o.Logger
	u, err := ui.New(s, *pages)
	if err != nil {
		return nil, err
	}
	s.Mount("/ui/", u.Handler())
	s.Mount("GET /{$}", http.RedirectHandler("/ui/", http.StatusSeeOther))
	return s, nil
}

// log opens the log that records changes.
func (f *serverFlags) log(ctx context.Context, a *cli.App, all *open.All) (*audit.Log, func() error, error) {
	switch {
	case f.readOnly:
		return nil, func() error { return nil }, nil
	case f.audit != "":
		return open.Log(ctx, a, f.audit)
	}
	return open.LogOn(ctx, a, all.Log, func() error { return nil })
}

// serving is a server that is ready.
type serving struct {
	server   *server.Server
	listener net.Listener
	jobs     open.JobStore
	options  server.Options
}

// Announced is a listener that calls Ready before its first connection is accepted: not when the server refuses its address.
type Announced struct {
	net.Listener
	Ready func()
	once  sync.Once
}

// Accept implements net.Listener.
func (l *Announced) Accept() (net.Conn, error) {
	l.once.Do(l.Ready)
	return l.Listener.Accept()
}

// serve serves until a signal.
func (f *serverFlags) serve(ctx context.Context, a *cli.App, s serving) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	if f.worker && !f.readOnly {
		w := job.NewWorker(s.jobs, job.WithLogger(s.options.Logger), job.WithPeriodic(s.options.Periodic...))
		httpjob.Register(w, httpjob.Options{})
		go func() { worked <- w.Run(running) }()
	} else {
		worked <- nil
	}
	scheme := "http"
	if s.options.TLS != nil {
		scheme = "https"
	}
	done := make(chan error, 1)
	ready := func() { a.Note("", "listening on %s://%s", scheme, s.listener.Addr()) }
	go func() { done <- s.server.Run(running, &Announced{Listener: s.listener, Ready: ready}) }()
	select {
	case err := <-done:
		stop()
		err = errors.Join(err, <-worked)
		if err == nil && ctx.Err() != nil {
			return cli.Stopped(ctx, f.exitZero)
		}
		return err
	case <-a.Kill:
		return errors.New("stopped at once; requests in flight were cut off")
	}
}
