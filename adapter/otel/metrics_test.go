package otel_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/tenetdev/tenet/adapter/otel"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

func TestEventsBecomeMetrics(t *testing.T) {
	f := newFixture(t, 0)
	story(t.Context(), f)
	want := []string{
		`tenet.attempts{tenet.key="user-service.GetUser",tenet.outcome="abort",tenet.reason="canceled_internal"} 1`,
		`tenet.attempts{tenet.key="user-service.GetUser",tenet.outcome="retryable",tenet.reason="http_status"} 1`,
		`tenet.attempts{tenet.key="user-service.GetUser",tenet.outcome="success",tenet.reason="success"} 1`,
		`tenet.call.duration{tenet.key="user-service.GetUser"} 1 in 0.082s`,
		`tenet.calls{tenet.key="user-service.GetUser",tenet.reason="success",tenet.surface="call"} 1`,
		`tenet.circuit.state{tenet.key="user-service.GetUser"} 2`,
		`tenet.denied{tenet.key="user-service.GetUser",tenet.reason="budget_denied"} 1`,
		`tenet.hedges{tenet.key="user-service.GetUser"} 1`,
		`tenet.limit.concurrency{tenet.key="user-service.GetUser"} 24`,
		`tenet.limit.wait{tenet.key="user-service.GetUser"} 1 in 0.03s`,
		`tenet.reports{tenet.reason="hedge_overrun"} 1`,
		`tenet.retries{tenet.key="user-service.GetUser"} 1`,
		`tenet.retry.delay{tenet.key="user-service.GetUser"} 1 in 0.02s`,
		`tenet.shadow.divergences{tenet.key="user-service.GetUser",tenet.reason="retry",tenet.shadow.reason="attempts_exhausted"} 1`,
	}
	if diff := cmp.Diff(want, samples(t, f)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestP2LabelsAreBounded(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	f := newFixture(t, 2)
	for i := range 20 {
		c := begin(t.Context(), f.Observer, policy.Key{Name: fmt.Sprintf("user-%02d", i)})
		c.end(observe.Timeline{End: at(-1), Reason: policy.Reason(fmt.Sprint("row ", i))})
	}
	got := samples(t, f)
	want := []string{
		`tenet.call.duration{tenet.key="other"} 18 in 0s`,
		`tenet.call.duration{tenet.key="user-00"} 1 in 0s`,
		`tenet.call.duration{tenet.key="user-01"} 1 in 0s`,
		`tenet.calls{tenet.key="other",tenet.reason="other",tenet.surface="call"} 18`,
		`tenet.calls{tenet.key="user-00",tenet.reason="other",tenet.surface="call"} 1`,
		`tenet.calls{tenet.key="user-01",tenet.reason="other",tenet.surface="call"} 1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.String())
	}
}

// samples lists the measurements, one text per series.
func samples(t *testing.T, f *fixture) []string {
	t.Helper()
	var list []string
	add := func(name string, labels attribute.Set, value string) {
		var texts []string
		for _, a := range labels.ToSlice() {
			texts = append(texts, fmt.Sprintf("%s=%q", a.Key, a.Value.AsString()))
		}
		list = append(list, fmt.Sprintf("%s{%s} %s", name, strings.Join(texts, ","), value))
	}
	for _, m := range collect(t, f) {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				add(m.Name, p.Attributes, fmt.Sprint(p.Value))
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				add(m.Name, p.Attributes, fmt.Sprint(p.Value))
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				add(m.Name, p.Attributes, fmt.Sprintf("%d in %gs", p.Count, p.Sum))
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				add(m.Name, p.Attributes, fmt.Sprintf("%d of %d", p.Count, p.Sum))
			}
		default:
			t.Fatalf("%s is a %T", m.Name, data)
		}
	}
	slices.Sort(list)
	return list
}

func collect(t *testing.T, f *fixture) []metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := f.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.ScopeMetrics) != 1 || all.ScopeMetrics[0].Scope.Name != otel.Scope {
		t.Fatalf("scopes %v, want %s alone", all.ScopeMetrics, otel.Scope)
	}
	return all.ScopeMetrics[0].Metrics
}

// refusing is a meter provider that cannot create gauges.
type refusing struct{ metricnoop.MeterProvider }

type refusingMeter struct{ metricnoop.Meter }

var errNoGauge = errors.New("no gauges here")

func (refusing) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

func (refusingMeter) Int64Gauge(string, ...metric.Int64GaugeOption) (metric.Int64Gauge, error) {
	return nil, errNoGauge
}

func TestRefusedInstrumentIsAnError(t *testing.T) {
	if o, err := otel.New(otel.Options{MeterProvider: refusing{}}); !errors.Is(err, errNoGauge) || o != nil {
		t.Errorf("got %v, %v", o, err)
	}
}
