package observe_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/observe"
)

type mark string

// tracer records the events that it receives and puts its name into contexts.
type tracer struct {
	name string
	told *[]string
}

func (t tracer) Observe(ctx context.Context, e *observe.Event) {
	*t.told = append(*t.told, t.name+" observes "+string(e.Type))
}

func (t tracer) Start(ctx context.Context, e *observe.Event) context.Context {
	before, _ := ctx.Value(mark("order")).(string)
	*t.told = append(*t.told, t.name+" starts "+string(e.Type))
	return context.WithValue(ctx, mark("order"), before+t.name)
}

func TestMultiOfNoneIsNil(t *testing.T) {
	if got := observe.Multi(nil, nil); got != nil {
		t.Errorf("got %v, want nil", got)
	}
}

func TestMultiOfOneIsTheObserverItself(t *testing.T) {
	one := tracer{name: "a", told: new([]string)}
	if got := observe.Multi(nil, one, nil); got != observe.Observer(one) {
		t.Errorf("got %#v, want the observer itself", got)
	}
}

func TestMultiCallsObserversInOrder(t *testing.T) {
	var told []string
	plain := observe.Func(func(context.Context, *observe.Event) { told = append(told, "plain observes") })
	given := []observe.Observer{tracer{"a", &told}, nil, plain, tracer{"b", &told}}
	all := observe.Multi(given...)
	given[0] = nil // Multi copies the list

	ctx := all.(observe.Starter).Start(t.Context(), &observe.Event{Type: observe.CallStarted})
	all.Observe(ctx, &observe.Event{Type: observe.CallEnded})

	want := []string{"a starts call_started", "b starts call_started", "a observes call_ended", "plain observes", "b observes call_ended"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if order := ctx.Value(mark("order")); order != "ab" {
		t.Errorf("contexts chained as %q, want ab", order)
	}
}

func TestMultiWithoutStartersIsNotAStarter(t *testing.T) {
	nop := observe.Func(func(context.Context, *observe.Event) {})
	if _, ok := observe.Multi(nop, nop).(observe.Starter); ok {
		t.Error("executors would send start events without a receiver")
	}
}
