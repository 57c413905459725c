package otel_test

import (
	"context"
	"fmt"
	"log"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenetdev/tenet/adapter/otel"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// Spans of an operation are children of their attempt's span.
func Example() {
	exporter := tracetest.NewInMemoryExporter() // in production, an OTLP exporter
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	observer, err := otel.New(otel.Options{TracerProvider: provider})
	if err != nil {
		log.Fatal(err)
	}

	// An executor with this observer makes these calls.
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	work := observe.Work{Key: policy.ParseKey("user-service.GetUser"), Surface: policy.SurfaceCall}
	record := observe.AttemptRecord{Attempt: 1, Start: begin, End: begin.Add(time.Second)}
	callCtx := observer.Start(context.Background(), &observe.Event{Type: observe.CallStarted, Time: begin, Work: work})
	attemptCtx := observer.Start(callCtx, &observe.Event{Type: observe.AttemptStarted, Time: begin, Work: work, Attempt: &record})
	_, span := provider.Tracer("my client").Start(attemptCtx, "GET", trace.WithSpanKind(trace.SpanKindClient)) // the operation
	span.End()
	observer.Observe(attemptCtx, &observe.Event{Type: observe.AttemptEnded, Time: record.End, Work: work, Attempt: &record})
	timeline := &observe.Timeline{Start: begin, End: record.End, Attempts: []observe.AttemptRecord{record}, Reason: policy.ReasonSuccess}
	observer.Observe(callCtx, &observe.Event{Type: observe.CallEnded, Time: record.End, Work: work, Timeline: timeline})

	for _, s := range exporter.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// GET
	// attempt user-service.GetUser
	// call user-service.GetUser
}
