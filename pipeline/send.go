package pipeline

import (
	"context"
	"reflect"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/observe"
)

// sender dispatches the results of a task.
type sender struct {
	sink   Sink
	encode func(result any) ([]byte, error)
	// chain reports that a value is the payload of a child of the incoming transaction. Otherwise it replaces the payload of
	// the incoming transaction.
	chain bool
}

func (s sender) send(ctx context.Context, from *Transaction, result any) error {
	switch result := result.(type) {
	case *Transaction:
		if result == nil {
			return nil
		}
		return s.sink.Dispatch(ctx, derive(ctx, from, result))
	case []*Transaction:
		for _, one := range result {
			if err := s.send(ctx, from, one); err != nil {
				return err
			}
		}
		return nil
	}
	if isNil(result) {
		return nil
	}
	payload, err := s.encode(result)
	if err != nil {
		return classify.Permanent(err) // repeating cannot help
	}
	t := from.With(WithPayload(payload))
	if s.chain {
		t.parent, t.attempts = from.id, 0
	}
	return s.sink.Dispatch(ctx, derive(ctx, from, t))
}

func isNil(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return r.IsNil()
	}
	return false
}

// derive returns t as it is dispatched on behalf of from. A missing correlation is set to from's, a missing parent to from,
// and a missing trace to that of the current span, or else to from's.
func derive(ctx context.Context, from, t *Transaction) *Transaction {
	var changes []TransactionOption
	if t.correlation == "" && from.correlation != "" {
		changes = append(changes, WithCorrelation(from.correlation))
	}
	if t.parent == "" && t.id != from.id {
		changes = append(changes, WithParent(from.id))
	}
	own, incoming := t.metadata[MetaTraceParent], from.metadata[MetaTraceParent]
	if parent, state := traceOn(ctx, from); parent != own && (own == "" || own == incoming) {
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

// traceOn returns the trace in which a transaction continues, as metadata. It ignores a span in another trace than the
// transaction's: such a span belongs to the program around an engine whose observer does not start spans.
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
