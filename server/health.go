package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tenetdev/tenet/policystore"
	"github.com/tenetdev/tenet/server/api"
)

const (
	readyTime  = 3 * time.Second // bounds how long /readyz waits for the stores
	readyEvery = time.Second     // how often it asks the stores at most: anybody can send requests to it
)

func (s *Server) healthRoutes() {
	get := func(path, id, summary string) route {
		r := group{tag: "Server"}.route(http.MethodGet, path, id, summary)
		r.public, r.free = true, true
		return r
	}
	s.raw(get("/livez", "livez", "Say that the process lives"), "text/plain", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	s.raw(get("/readyz", "readyz", "Say whether the server can serve: its store answers and it does not drain"), "text/plain", s.ready)
	s.raw(get("/v1/openapi.json", "openapi", "Describe the API"), "application/json", func(w http.ResponseWriter, r *http.Request) {
		document, err := s.document()
		if err != nil {
			s.problemOf(r.Context(), err).write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document)
	})
	o := get("/metrics", "metrics", "Serve metrics for Prometheus")
	o.public, o.scope = false, policystore.ScopeRead
	s.raw(o, "text/plain", promhttp.HandlerFor(s.options.Metrics, promhttp.HandlerOpts{}).ServeHTTP)
}

// raw adds an operation that writes its answer itself.
func (s *Server) raw(o route, mediaType string, handle http.HandlerFunc) {
	s.declare(&o)
	if o.Responses == nil {
		o.Responses = map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{mediaType: {}}}}
	}
	s.api.OpenAPI().AddOperation(&o.Operation)
	s.mux.HandleFunc(o.Method+" "+o.Path, func(w http.ResponseWriter, r *http.Request) {
		if err := o.checkDeclared(r); err != nil {
			s.problemOf(r.Context(), err).write(w)
			return
		}
		handle(w, r)
	})
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.draining() {
		text(w, http.StatusServiceUnavailable, "draining")
		return
	}
	failed, _, err := s.answering.get(r.Context())
	if err := cmp.Or(err, failed); err != nil {
		s.options.Logger.WarnContext(r.Context(), "the server is not ready", "error", err)
		text(w, http.StatusServiceUnavailable, "the store does not answer")
		return
	}
	text(w, http.StatusOK, "ok")
}

// askStores returns why a store does not answer, which is kept like an answer. It goes on when the request that asks is gone.
func (s *Server) askStores(ctx context.Context) (failed, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTime)
	defer cancel()
	_, jobs := s.options.Jobs.Queues(ctx)
	_, policies := s.options.Policies.Tokens(ctx, "", 1)
	return cmp.Or(jobs, policies), nil
}

func text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, line)
}

// securitySchemes are the ways to say who one is.
func securitySchemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		"token":   {Type: "http", Scheme: "bearer"},
		"session": {Type: "apiKey", In: "cookie", Name: sessionCookie},
	}
}

// schemaName names a type in the OpenAPI document. Types of other packages than this one and api carry their package's name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch from := path.Base(t.PkgPath()); from {
	case ".", "api", "server":
		return name
	default:
		return strings.ToUpper(from[:1]) + from[1:] + name
	}
}

// describe completes the OpenAPI document: every operation can answer with a problem, and none with an error of the router. It returns a
// function that writes it, once.
func describe(document *huma.OpenAPI) func() ([]byte, error) {
	for _, t := range []reflect.Type{reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[huma.ErrorDetail]()} {
		delete(document.Components.Schemas.Map(), schemaName(t, ""))
	}
	schema := document.Components.Schemas.Schema(reflect.TypeFor[api.Problem](), true, "Problem")
	for _, item := range document.Paths {
		for _, o := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if o != nil {
				o.Responses["default"] = &huma.Response{
					Description: "A problem", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: schema}},
				}
			}
		}
	}
	return sync.OnceValues(func() ([]byte, error) { return json.MarshalIndent(document, "", "  ") })
}

// metrics of the server.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	open     prometheus.Gauge
}

func newMetrics(registry *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tenet_server_requests_total", Help: "Requests, by operation and status.",
		}, []string{"operation", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tenet_server_request_seconds", Help: "How long requests took, by operation; streams until they ended.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30},
		}, []string{"operation"}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tenet_server_requests_open", Help: "Requests in flight."}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.open, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
