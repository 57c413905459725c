package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/observe/prom"
)

// silence is how long the store may not answer before a worker is not ready.
const silence = 15 * time.Second

// health serves what orchestrators and Prometheus ask a worker for.
type health struct {
	observer *prom.Observer
	registry *prometheus.Registry
	listener net.Listener
	server   *http.Server
	served   chan error // nil until serve
}

func (a *app) listen(address string, store job.Admin) (*health, error) {
	h := &health{registry: prometheus.NewRegistry()}
	h.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) // the first ones
	h.registry.MustRegister(newDepth(store))
	var err error
	if h.observer, err = prom.New(prom.Options{Registerer: h.registry}); err != nil {
		return nil, err
	}
	if h.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", address); err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return h, nil
}

func (h *health) address() string { return h.listener.Addr().String() }

// serve answers until close. The worker is not ready any more when ctx is done.
func (h *health) serve(ctx context.Context, w *job.Worker) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(out http.ResponseWriter, _ *http.Request) { fmt.Fprintln(out, "ok") })
	mux.HandleFunc("GET /readyz", func(out http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil {
			http.Error(out, "stopping", http.StatusServiceUnavailable)
			return
		}
		if err := w.Healthy(silence); err != nil {
			http.Error(out, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(out, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{}))
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	h.served = make(chan error, 1)
	go func() { h.served <- h.server.Serve(h.listener) }()
}

func (h *health) close() error {
	if h.served == nil {
		return h.listener.Close()
	}
	err := h.server.Close()
	if served := <-h.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
