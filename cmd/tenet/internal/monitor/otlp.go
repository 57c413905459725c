package monitor

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/tenetdev/tenet/adapter/otel"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/observe"
)

// OtlpFlag adds --otlp to a command.
func OtlpFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("otlp", "", "send traces and metrics to this OpenTelemetry collector (OTLP over HTTP), for example http://localhost:4318")
}

// otlpCloseTime is how long a command waits for the collector at its end.
const otlpCloseTime = 5 * time.Second

// export returns an observer that sends traces and metrics to a collector, under a service name. closeExport sends the rest.
// Data that the collector does not accept is lost, and the loss is logged.
func export(ctx context.Context, address, name string, log *slog.Logger) (observer observe.Observer, closeExport func(), err error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, nil, cli.Usagef("--otlp: write the URL of a collector, for example http://localhost:4318")
	}
	to := strings.TrimSuffix(address, "/")
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to+"/v1/traces"))
	if err != nil {
		return nil, nil, err
	}
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(to+"/v1/metrics"))
	if err != nil {
		return nil, nil, errors.Join(err, spans.Shutdown(ctx))
	}
	state := &collector{log: log, address: base.Redacted(), failing: map[string]bool{}}
	of := resource.NewSchemaless(attribute.String("service.name", "tenet-"+name), attribute.String("service.version", cli.VersionOf().Version))
	tracers := trace.NewTracerProvider(trace.WithBatcher(spanExport{spans, state}), trace.WithResource(of))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(metricExport{metrics, state})), metric.WithResource(of))
	closeExport = func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), otlpCloseTime)
		defer cancel()
		if err := errors.Join(tracers.Shutdown(closing), meters.Shutdown(closing)); err != nil {
			log.Warn("the last traces and metrics could not be sent", "collector", base.Redacted(), "error", err)
		}
	}
	if observer, err = otel.New(otel.Options{TracerProvider: tracers, MeterProvider: meters}); err != nil {
		closeExport()
		return nil, nil, err
	}
	return observer, closeExport, nil
}

// collector logs once when a collector stops accepting data, and once when it accepts data again.
type collector struct {
	log     *slog.Logger
	address string
	mu      sync.Mutex
	failing map[string]bool // traces, metrics
}

func (c *collector) record(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := len(c.failing) > 0
	if delete(c.failing, what); err != nil {
		c.failing[what] = true
	}
	switch is := len(c.failing) > 0; {
	case is && !was:
		c.log.Warn("the collector does not accept "+what+"; they are lost until it does", "collector", c.address, "error", err)
	case was && !is:
		c.log.Info("the collector accepts data again", "collector", c.address)
	}
}

type spanExport struct {
	trace.SpanExporter
	state *collector
}

// ExportSpans implements trace.SpanExporter.
func (e spanExport) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	e.state.record("traces", e.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

type metricExport struct {
	metric.Exporter
	state *collector
}

// Export implements metric.Exporter.
func (e metricExport) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	e.state.record("metrics", e.Exporter.Export(ctx, m))
	return nil
}
