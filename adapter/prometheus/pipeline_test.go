package prom_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	prom "github.com/tenetdev/tenet/adapter/prometheus"
	"github.com/tenetdev/tenet/internal/testobserve"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
	"github.com/tenetdev/tenet/policy"
)

func engines(t *testing.T, o observe.Observer, process func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { testobserve.Pipelines(t.Context(), t, o, process) })
}

func TestL12PipelinesBecomeMetrics(t *testing.T) {
	o, registry := observer(t, 0)
	engines(t, o, func() {
		if got := samples(t, registry); !slices.Contains(got, `tenet_pipeline_in_flight{pipeline="consumer/orders"} 1`) {
			t.Errorf("nothing is in flight:\n%s", strings.Join(got, "\n"))
		}
	})
	got := slices.DeleteFunc(samples(t, registry), func(s string) bool { return !strings.HasPrefix(s, "tenet_pipeline_") })
	want := []string{
		`tenet_pipeline_backoff_seconds{pipeline="consumer/orders",step="process"} 3 in 3s`,
		`tenet_pipeline_deliveries_total{outcome="exception",pipeline="consumer/orders"} 3`,
		`tenet_pipeline_deliveries_total{outcome="success",pipeline="consumer/orders"} 1`,
		`tenet_pipeline_deliveries_total{outcome="success",pipeline="producer/orders"} 4`,
		`tenet_pipeline_empty_wait_seconds{pipeline="consumer/orders"} 3 in 60s`,
		`tenet_pipeline_empty_wait_seconds{pipeline="producer/orders"} 0 in 0s`,
		`tenet_pipeline_fetch_size{pipeline="consumer/orders"} 4 in 4s`,
		`tenet_pipeline_fetch_size{pipeline="producer/orders"} 4 in 4s`,
		`tenet_pipeline_in_flight{pipeline="consumer/orders"} 0`,
		`tenet_pipeline_in_flight{pipeline="producer/orders"} 0`,
		`tenet_pipeline_processed_total{pipeline="consumer/orders"} 2`,
		`tenet_pipeline_processed_total{pipeline="producer/orders"} 4`,
		`tenet_pipeline_retries_total{pipeline="consumer/orders",step="process"} 3`,
		`tenet_pipeline_run_duration_seconds{pipeline="consumer/orders"} 1 in 60s`,
		`tenet_pipeline_run_duration_seconds{pipeline="producer/orders"} 1 in 0s`,
		`tenet_pipeline_step_duration_seconds{pipeline="consumer/orders",step="exception"} 3 in 0s`,
		`tenet_pipeline_step_duration_seconds{pipeline="consumer/orders",step="fetch"} 4 in 0s`,
		`tenet_pipeline_step_duration_seconds{pipeline="consumer/orders",step="process"} 4 in 7s`,
		`tenet_pipeline_step_duration_seconds{pipeline="consumer/orders",step="success"} 2 in 10s`,
		`tenet_pipeline_step_duration_seconds{pipeline="consumer/orders",step="transaction"} 4 in 17s`,
		`tenet_pipeline_step_duration_seconds{pipeline="producer/orders",step="produce"} 4 in 0s`,
		`tenet_pipeline_step_duration_seconds{pipeline="producer/orders",step="transaction"} 4 in 0s`,
		`tenet_pipeline_timeouts_total{pipeline="consumer/orders",step="process"} 2`,
		`tenet_pipeline_timeouts_total{pipeline="consumer/orders",step="run"} 1`,
		`tenet_pipeline_timeouts_total{pipeline="consumer/orders",step="transaction"} 1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestP2LabelsOfPipelinesAreBounded(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.DiscardHandler))
	o, registry := observer(t, 2)
	for i := range 50 {
		odd := string(rune('a'+i%26)) + strings.Repeat("x", i)
		key := policy.ConsumerKey(odd, odd)
		ended := call(key, time.Second, policy.ReasonOverallTimeout)
		ended.Work.Surface = policy.SurfaceStep
		o.Observe(t.Context(), ended)
		flow := event(key, observe.Flowed)
		flow.Work.Surface, flow.Flow = policy.SurfaceStep, &observe.Flow{InFlight: 1, Outcome: odd}
		o.Observe(t.Context(), flow)
	}
	got := slices.DeleteFunc(samples(t, registry), func(s string) bool { return !strings.HasPrefix(s, "tenet_pipeline_") })
	for _, want := range []string{
		`tenet_pipeline_deliveries_total{outcome="other",pipeline="other"} 48`,
		`tenet_pipeline_step_duration_seconds{pipeline="other",step="other"} 48 in 48s`,
		`tenet_pipeline_timeouts_total{pipeline="other",step="other"} 48`,
		`tenet_pipeline_in_flight{pipeline="consumer/a"} 1`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("missing %s in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if len(got) != 8*3 {
		t.Errorf("%d series, want 8 for each of two pipelines and other:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// BenchmarkObserveTransaction measures the cost of observing a successful transaction.
func BenchmarkObserveTransaction(b *testing.B) {
	o, err := prom.New(prom.Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		b.Fatal(err)
	}
	var p policy.Consumer
	p.Loop.Concurrency.Value, p.Loop.Batch.Size = 1, 100
	list := make([]*pipeline.Transaction, b.N)
	for i := range list {
		list[i] = pipeline.NewTransaction("transaction", nil)
	}
	task := pipeline.Handle(func(context.Context, *pipeline.Transaction) error { return nil })
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := pipeline.NewConsumer(pipeline.NewMemorySource(list...), task, p, pipeline.WithObserver(o)).Run(b.Context()); err != nil {
		b.Fatal(err)
	}
}
