package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/rollout"
	"github.com/tenetdev/tenet/server/api"
	"github.com/tenetdev/tenet/server/internal/deliver"
	"github.com/tenetdev/tenet/server/internal/documents"
	"github.com/tenetdev/tenet/server/internal/redrives"
	"github.com/tenetdev/tenet/server/internal/rollouts"
)

// JobStore keeps jobs that operators can inspect and change.
type JobStore interface {
	job.Store
	job.Admin
}

// RecordStore keeps idempotency records that operators can inspect and change.
type RecordStore interface {
	idempotency.Store
	idempotency.Admin
}

// AuditStore is an audit log that is read.
type AuditStore interface {
	audit.Source
	// Heads returns the last entry of every chain, ordered by chain ID.
	Heads(ctx context.Context) ([]audit.Head, error)
}

// Stores are what a server serves. All of them are required.
type Stores struct {
	Jobs     JobStore
	Records  RecordStore
	Audit    AuditStore
	Policies policystore.Store
}

// Options of [New].
type Options struct {
	Stores
	// Log takes the actions of operators, each before it takes effect. Required unless ReadOnly.
	Log *audit.Log
	// PolicyLimits are an operator's own limits of policies, by surface. Nil means the built-in ones.
	PolicyLimits map[policy.Surface]policy.Limits
	// Periodic are the periodic jobs that the server lists and runs on request. Its workers, if any, run their schedules.
	Periodic []job.Periodic
	// OIDC signs people in. May be nil.
	OIDC *OIDC
	// Authenticate says who makes a request, for a server that is mounted in a program which knows its users. It goes before
	// tokens and sessions. A nil caller without an error leaves the request to these; an error refuses the request with 401, and
	// is logged but not sent. It is called for every request, at the same time for several. May be nil.
	Authenticate func(*http.Request) (*Caller, error)
	// Limits bound requests.
	Limits Limits
	// TLS serves HTTPS. May be nil.
	TLS *tls.Config
	// Logger gets failures and the start and end of the server, never a token or a payload. Default slog.Default().
	Logger *slog.Logger
	// Metrics holds what /metrics serves. The server adds its own. Default a new registry.
	Metrics *prometheus.Registry
	// ReadOnly refuses every change.
	ReadOnly bool
	// Insecure lets everybody who reaches the server do everything, from other machines too, until there is a token or OIDC.
	Insecure bool
}

// Server serves stores over HTTP. It is safe for concurrent use.
type Server struct {
	options  Options
	mux      *mux
	api      huma.API
	guard    *idempotency.Guard
	identity *identity
	limits   *limiter
	metrics  *metrics
	document func() ([]byte, error) // OpenAPI, written once

	hub       *deliver.Hub // closed when the server drains: streams end
	documents *documents.Service
	counters  *kept[map[string]job.QueueStats]
	reporting *kept[[]policystore.Client] // those that reported something, in the order of document and ID
	answering *kept[error]                // why a store does not answer; nil if all do
	feed      *feed
	sampler   sampler
}

// New makes a server. It fails for missing options and, with OIDC, where the provider does not answer.
func New(ctx context.Context, o Options) (*Server, error) {
	switch {
	case o.Jobs == nil, o.Records == nil, o.Audit == nil, o.Policies == nil:
		return nil, errors.New("server: New: a store is missing")
	case o.Log == nil && !o.ReadOnly:
		return nil, errors.New("server: New: the audit log is missing")
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	o.Limits = o.Limits.withDefaults()
	s := &Server{
		options: o, limits: newLimiter(o.Limits), hub: deliver.New(o.Policies, o.Logger), documents: documents.New(o.Policies, o.PolicyLimits),
		counters:  keep(countersTime, o.Jobs.Stats),
		reporting: keep(reportingTime, func(ctx context.Context) ([]policystore.Client, error) { return readReporting(ctx, o.Policies) }),
	}
	s.answering = keep(readyEvery, s.askStores)
	s.feed = newFeed(s)
	s.sampler.asked = wait.NewSignal()
	var err error
	if s.metrics, err = newMetrics(o.Metrics); err != nil {
		return nil, fmt.Errorf("server: metrics: %w", err)
	}
	guard := idempotency.GuardOptions{Operation: "tenet-server", MaxResult: maxAnswer}
	if o.Log != nil {
		guard.Observer, guard.Journal = o.Log, o.Log
	}
	if s.guard, err = idempotency.NewGuard(o.Records, guard); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if s.identity, err = newIdentity(ctx, o, s.limits); err != nil {
		return nil, err
	}
	s.mux = &mux{ServeMux: http.NewServeMux(), declared: map[string]*route{}, wrap: s.protect}
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	schemas.RegisterTypeAlias(reflect.TypeFor[rollout.Step](), reflect.TypeFor[api.Step]()) // as it is written: the hold in seconds
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Tenet", Version: "1", Description: "Jobs, queues, idempotency records, audit logs, policy documents and tokens."},
			Components: &huma.Components{
				Schemas:         schemas,
				SecuritySchemes: securitySchemes(),
			},
		},
		Formats: map[string]huma.Format{"application/json": unaltered, "json": unaltered}, DefaultFormat: "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{problems},
	}
	s.api = humago.New(s.mux, config)
	s.routes()
	s.document = describe(s.api.OpenAPI())
	return s, nil
}

// routes registers all operations.
func (s *Server) routes() {
	s.healthRoutes()
	s.jobRoutes()
	s.jobEventRoutes()
	s.redriveRoutes()
	s.flowRoutes()
	s.historyRoutes()
	s.queueRoutes()
	s.settingRoutes()
	s.recordRoutes()
	s.auditRoutes()
	s.eventRoutes()
	s.tokenRoutes()
	s.sessionRoutes()
	s.documentRoutes()
	s.deliveryRoutes()
	s.mux.ServeMux.HandleFunc("/", s.unknown)
}

// Handler returns the handler of all requests. It can be mounted in another server, without a prefix. Without identity it answers
// only requests from this machine, unless Options.Insecure; a proxy on this machine makes all requests come from it. A change goes on
// for up to 30 seconds when its caller leaves, whatever the deadline of an outer handler.
func (s *Server) Handler() http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refusal(http.StatusForbidden, "a browser sent this change from the page of another site", "send it from a page of this server").write(w)
	}))
	return s.observe(protection.Handler(s.mux))
}

// Local returns the API for a part of the same program, such as the web UI. It identifies callers like Handler, and does not
// bound how many requests they make: whoever uses it does.
func (s *Server) Local() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), localKey{}, true)))
	})
}

// localKey marks the contexts of requests that come through Local.
type localKey struct{}

// Mount serves a handler under a pattern of net/http's ServeMux beside the API. It is called before the server runs. A request has 30
// seconds for its body and the handler a minute for the answer, unless it sets other deadlines with http.ResponseController.
func (s *Server) Mount(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Closing is closed when the server drains: streams of mounted handlers then end.
func (s *Server) Closing() <-chan struct{} { return s.hub.Closing() }

// drainTime bounds how long Run waits for requests in flight when it ends.
const drainTime = 20 * time.Second

// Run serves a listener until ctx ends or the listener fails, then lets requests in flight finish for up to 20 seconds. It closes
// the listener. Without identity it refuses a listener that other machines reach, unless Options.Insecure.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	if err := s.checkAddress(ctx, listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	httpServer := &http.Server{
		Handler: s.Handler(), TLSConfig: s.options.TLS, ReadHeaderTimeout: s.options.Limits.HeaderTime, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: s.options.Limits.HeaderBytes, ErrorLog: slog.NewLogLogger(s.options.Logger.Handler(), slog.LevelDebug),
	}
	listener = &watched{Listener: listener, log: s.options.Logger}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	httpServer.BaseContext = func(net.Listener) context.Context { return context.WithValue(context.Background(), runKey{}, work) }
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() { s.Work(work) })
	ended := make(chan error, 1)
	go func() {
		if s.options.TLS != nil {
			ended <- httpServer.ServeTLS(listener, "", "")
		} else {
			ended <- httpServer.Serve(listener)
		}
	}()
	var reason error // why Serve ended
	select {
	case reason = <-ended:
	case <-ctx.Done():
	}
	s.Drain()
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err := httpServer.Shutdown(limit)
	if err != nil {
		err = errors.Join(fmt.Errorf("server: requests were cut off: %w", err), httpServer.Close())
	}
	if reason == nil {
		reason = <-ended
	}
	if !errors.Is(reason, http.ErrServerClosed) {
		err = errors.Join(fmt.Errorf("server: %w", reason), err)
	}
	return err
}

// watched is a listener that logs, once a minute, why it accepts no connections, for example because the process may not open more
// files. net/http tries again.
type watched struct {
	net.Listener
	log    *slog.Logger
	logged time.Time // written by the goroutine that accepts
}

func (l *watched) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) && time.Since(l.logged) >= time.Minute {
		l.logged = time.Now()
		l.log.Warn("connections are not accepted", "error", err)
	}
	return connection, err
}

// runKey is the key of the context of Run in those of requests.
type runKey struct{}

// Drain makes /readyz fail and ends all streams. Run calls it when its context ends.
func (s *Server) Drain() { s.hub.Close() }

// Work follows the policy store, so that documents can be delivered, keeps the history of the counters, and runs rollouts and
// redrives while this server leads them, until ctx ends. Run calls it; a program that serves the Handler itself calls it beside.
func (s *Server) Work(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { s.hub.Run(ctx) })
	group.Go(func() { s.sampler.run(ctx, s) })
	if !s.options.ReadOnly {
		runner := rollouts.New(s.options.Policies, s.documents, rollouts.Options{Record: s.recordJudgement, Logger: s.options.Logger})
		group.Go(func() { runner.Run(ctx) })
		if store, ok := s.options.Jobs.(job.RedriveStepper); ok {
			runner := redrives.New(s.options.Policies, judging{store, s.options.Log}, job.RedriveRunnerOptions{Judged: s.recordRedrive, Logger: s.options.Logger})
			group.Go(func() { runner.Run(ctx) })
		}
	}
}

func (s *Server) draining() bool {
	select {
	case <-s.Closing():
		return true
	default:
		return false
	}
}

// checkAddress refuses to serve other machines without knowing who calls.
func (s *Server) checkAddress(ctx context.Context, address net.Addr) error {
	if s.options.Insecure || loopback(address.String()) {
		return nil
	}
	known, err := s.identity.configured(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("server: look for tokens: %w", err)
	case !known:
		return fmt.Errorf("server: %s can be reached from other machines, and there is neither a token nor OpenID Connect: make a token first (tenet token create), listen on 127.0.0.1, or allow everything to everybody (--insecure, Options.Insecure)", address)
	}
	return nil
}

// loopback reports whether a host, with or without a port, is this machine.
func loopback(address string) bool {
	host := hostOf(address)
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// fromElsewhere reports whether a request comes from another machine. Sockets of this machine have no IP address.
func fromElsewhere(r *http.Request) bool {
	from, err := netip.ParseAddr(hostOf(r.RemoteAddr))
	return err == nil && !from.Unmap().IsLoopback()
}
