package pipeline_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/pipeline"
)

const (
	cameTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	came      = "00-" + cameTrace + "-00f067aa0ba902b7-00"
)

// continuing begins spans as an exporter does: a transaction continues the trace of its metadata, or begins one.
type continuing struct{}

func (continuing) Observe(context.Context, *observe.Event) {}

func (continuing) Start(ctx context.Context, e *observe.Event) context.Context {
	span, _ := observe.SpanOf(ctx)
	if e.Trace != nil {
		span.TraceID, span.Sampled = [16]byte{15: 7}, true
		if e.Trace.Parent == came {
			span.Sampled = false
			span.TraceID = [16]byte{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36}
		}
	}
	span.SpanID = [8]byte{7: 9}
	return observe.WithSpan(ctx, span)
}

// TestL12DispatchedTransactionsKeepTraceAndCorrelation checks chains, producers and dead letters.
func TestL12DispatchedTransactionsKeepTraceAndCorrelation(t *testing.T) {
	const begun = "00-00000000000000000000000000000007-0000000000000009-01"
	const continued = "00-" + cameTrace + "-0000000000000009-00"
	foreign := observe.WithSpan(bg, observe.Span{TraceID: [16]byte{1}, SpanID: [8]byte{1}})
	for name, c := range map[string]struct {
		ctx             context.Context
		parent, state   string
		observer        observe.Observer
		made            string // the traceparent that the task gives to its transaction
		want, wantState string
	}{
		"nothing":                           {ctx: bg},
		"no observer":                       {ctx: bg, parent: came, state: "v=1", want: came, wantState: "v=1"},
		"a span in the incoming trace":      {ctx: bg, parent: came, state: "v=1", observer: continuing{}, want: continued, wantState: "v=1"},
		"a span in a new trace":             {ctx: bg, observer: continuing{}, want: begun},
		"an invalid parent":                 {ctx: bg, parent: "x", state: "v=1", observer: continuing{}, want: begun},
		"a span of the surrounding program": {ctx: foreign, parent: came, state: "v=1", want: came, wantState: "v=1"},
		"the task's own":                    {ctx: bg, parent: came, state: "v=1", observer: continuing{}, made: begun, want: begun},
	} {
		metadata := map[string]string{}
		if c.parent != "" {
			metadata[pipeline.MetaTraceParent], metadata[pipeline.MetaTraceState] = c.parent, c.state
		}
		x := pipeline.NewTransaction("a", nil, pipeline.WithMetadata(metadata), pipeline.WithCorrelation("order"))
		made := func(id string, of map[string]string) *pipeline.Transaction {
			if c.made != "" {
				return pipeline.NewTransaction(id, nil, pipeline.WithMetadata(map[string]string{pipeline.MetaTraceParent: c.made}))
			}
			return pipeline.NewTransaction(id, nil, pipeline.WithMetadata(of))
		}
		var sink, letters, produced pipeline.MemorySink
		task := pipeline.Into(func(context.Context, *pipeline.Transaction) ([]*pipeline.Transaction, error) {
			return []*pipeline.Transaction{made("b", nil), nil, made("c", metadata)}, nil // a copied traceparent is not the task's own
		}, &sink)
		observed := pipeline.WithObserver(c.observer)
		chain := pipeline.NewConsumer(pipeline.NewMemorySource(x), task, consumerPolicy(1, 1), observed)
		failing := pipeline.Handle(func(context.Context, *pipeline.Transaction) error { return errDown })
		dead := pipeline.NewConsumer(pipeline.NewMemorySource(x), failing, consumerPolicy(1, 1), observed, pipeline.WithDeadLetter(&letters))
		one := pipeline.Map(func(context.Context, *pipeline.Transaction) (any, error) { return made("b", nil), nil })
		producer := pipeline.NewProducer(&produced, one, producerPolicy(1, 1), observed)
		for _, run := range []func(context.Context) (pipeline.Summary, error){chain.Run, dead.Run, func(ctx context.Context) (pipeline.Summary, error) {
			return producer.Run(ctx, pipeline.Values(x))
		}} {
			if summary, err := run(c.ctx); err != nil || summary.Success+summary.Exception != 1 {
				t.Fatal(name, summary, err)
			}
		}
		all := append(sink.Transactions(), produced.Transactions()...)
		if diff := cmp.Diff([]string{"b", "c", "b"}, ids(all)); diff != "" {
			t.Fatal(name, diff)
		}
		for i, got := range append(all, letters.Transactions()...) {
			if letter := i == len(all); letter && c.made != "" {
				continue // no task made it
			}
			if p, s := got.Metadata(pipeline.MetaTraceParent), got.Metadata(pipeline.MetaTraceState); p != c.want || s != c.wantState {
				t.Errorf("%s: %s: %s %s, want %s %s", name, got.ID(), p, s, c.want, c.wantState)
			}
			if got.Correlation() != "order" || got.ID() != "a" && got.Parent() != "a" {
				t.Errorf("%s: %s: correlation %q, parent %q", name, got.ID(), got.Correlation(), got.Parent())
			}
		}
		if got := x.Metadata(pipeline.MetaTraceParent); got != c.parent {
			t.Errorf("%s: the incoming transaction was changed: %s", name, got)
		}
	}
}
