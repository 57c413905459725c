package observe_test

import (
	"context"
	"testing"

	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/observe"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	testargument.Refused(t, map[string]func() error{
		"observe: NewPerKey: the function is nil":     func() error { observe.NewPerKey[int](1, nil); return nil },
		"observe: RecordTimeline: the context is nil": func() error { observe.RecordTimeline(none); return nil },
		"observe: WithSpan: the context is nil":       func() error { observe.WithSpan(none, observe.Span{}); return nil },
		"observe: SpanOf: the context is nil":         func() error { observe.SpanOf(none); return nil },
	})
}
