package observe

import (
	"context"
	"encoding/hex"

	"github.com/tenetdev/tenet/internal/argument"
)

// Span identifies a span, in the sizes of the W3C's Trace Context.
type Span struct {
	TraceID [16]byte
	SpanID  [8]byte
	Sampled bool // the span is kept; its children should be kept too
}

// Trace returns the trace's ID in lower-case hexadecimal digits.
func (s Span) Trace() string { return hex.EncodeToString(s.TraceID[:]) }

// ID returns the span's ID in lower-case hexadecimal digits.
func (s Span) ID() string { return hex.EncodeToString(s.SpanID[:]) }

type spanKey struct{}

// WithSpan returns a context in which [SpanOf] finds the span. A [Starter] that starts spans calls it, so that log lines name
// their span. A nil context panics.
func WithSpan(ctx context.Context, s Span) context.Context {
	argument.Need(ctx != nil, "observe: WithSpan: the context")
	return context.WithValue(ctx, spanKey{}, s)
}

// SpanOf returns the innermost span of the context, and whether there is one. A nil context panics.
func SpanOf(ctx context.Context) (Span, bool) {
	argument.Need(ctx != nil, "observe: SpanOf: the context")
	s, ok := ctx.Value(spanKey{}).(Span)
	return s, ok
}
