package pipeline

import (
	"context"

	"github.com/tenetdev/tenet/observe"
)

// handOn is t as it is dispatched for another: with what it has none of its own of, the other's correlation, the other as its
// parent, and the trace of the present span or, without one, that which the other came in.
func handOn(ctx context.Context, from, t *Transaction) *Transaction {
	var changes []TransactionOption
	if t.correlation == "" && from.correlation != "" {
		changes = append(changes, WithCorrelation(from.correlation))
	}
	if t.parent == "" && t.id != from.id {
		changes = append(changes, WithParent(from.id))
	}
	own, came := t.metadata[MetaTraceParent], from.metadata[MetaTraceParent]
	if parent, state := traceOn(ctx, from); parent != own && (own == "" || own == came) {
		changes = append(changes, withTrace(parent, state))
	}
	if len(changes) == 0 {
		return t
	}
	return t.With(changes...)
}

func withTrace(parent, state string) TransactionOption {
	return func(t *Transaction) {
		WithMetadata(map[string]string{MetaTraceParent: parent, MetaTraceState: state})(t)
		if state == "" {
			delete(t.metadata, MetaTraceState)
		}
	}
}

// traceOn is the trace in which a transaction goes on, as metadata. A span that is not in the transaction's trace is not the
// transaction's: it is that of the program around an engine which begins none.
func traceOn(ctx context.Context, t *Transaction) (parent, state string) {
	parent, state = t.metadata[MetaTraceParent], t.metadata[MetaTraceState]
	span, ok := observe.SpanOf(ctx)
	trace := traceOf(t)
	if !ok || trace != "" && trace != span.Trace() {
		return parent, state
	}
	if trace == "" {
		state = ""
	}
	flags := "00"
	if span.Sampled {
		flags = "01"
	}
	return "00-" + span.Trace() + "-" + span.ID() + "-" + flags, state
}
