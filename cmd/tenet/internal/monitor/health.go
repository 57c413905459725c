package monitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	prom "github.com/tenetdev/tenet/adapter/prometheus"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// Silence is how long the store may fail to answer before a worker is not ready.
const Silence = 15 * time.Second

// probe returns nil if a process is healthy.
type probe func(context.Context) error

// Alive is a probe that always succeeds: the process runs.
func Alive(context.Context) error { return nil }

// Health serves the health and metrics of a process over HTTP.
type Health struct {
	log      *slog.Logger
	observer *prom.Observer
	registry *prometheus.Registry
	listener net.Listener
	server   *http.Server
	served   chan error // nil until Serve
}

// listen listens on an address. It adds the metrics of own to those of the process and of the observer.
func listen(address string, log *slog.Logger, own ...prometheus.Collector) (*Health, error) {
	h := &Health{log: log, registry: prometheus.NewRegistry()}
	h.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) // never a duplicate in a new registry
	h.registry.MustRegister(own...)
	var err error
	if h.observer, err = prom.New(prom.Options{Registerer: h.registry}); err != nil {
		return nil, err
	}
	if h.listener, err = cli.Listen(context.Background(), address); err != nil {
		return nil, err
	}
	return h, nil
}

// Address returns the address of the listener, as host:port.
func (h *Health) Address() string { return h.listener.Addr().String() }

// Serve serves until close is called, and logs where. When ctx is done the process is no longer ready.
func (h *Health) Serve(ctx context.Context, live, ready probe) {
	h.server = &http.Server{
		Handler: h.handler(ctx, live, ready), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelWarn),
	}
	h.served = make(chan error, 1)
	go func() { h.served <- h.server.Serve(h.listener) }()
	h.log.Info("serving health and metrics", "address", h.Address())
}

func (h *Health) handler(ctx context.Context, live, ready probe) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", live)
	mux.Handle("GET /readyz", probe(func(asked context.Context) error {
		if ctx.Err() != nil {
			return errors.New("stopping")
		}
		return ready(asked)
	}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{}))
	return mux
}

// ServeHTTP implements http.Handler: 200, or 503 with the reason.
func (p probe) ServeHTTP(out http.ResponseWriter, asked *http.Request) {
	if err := p(asked.Context()); err != nil {
		http.Error(out, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(out, "ok")
}

func (h *Health) close() error {
	if h.served == nil {
		return h.listener.Close()
	}
	err := h.server.Close()
	if served := <-h.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
