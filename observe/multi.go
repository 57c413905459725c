package observe

import (
	"context"
	"slices"
)

// Multi returns an Observer that tells each of the observers in their order; nils are dropped. It is a [Starter] if any
// of them is one: beginnings are told to those, and each gets the context that the one before it returned. Without
// observers Multi returns nil, with one that observer itself.
//
// An observer that panics keeps the event from those after it.
func Multi(observers ...Observer) Observer {
	list := slices.DeleteFunc(slices.Clone(observers), func(o Observer) bool { return o == nil })
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	var starters []Starter
	for _, o := range list {
		if s, ok := o.(Starter); ok {
			starters = append(starters, s)
		}
	}
	if len(starters) == 0 {
		return multi(list)
	}
	return startingMulti{multi: list, starters: starters}
}

type multi []Observer

// Observe tells every observer.
func (m multi) Observe(ctx context.Context, e *Event) {
	for _, o := range m {
		o.Observe(ctx, e)
	}
}

// startingMulti is a type of its own so that executors spend nothing on beginnings that nobody wants to hear of.
type startingMulti struct {
	multi
	starters []Starter
}

// Start chains the starters.
func (m startingMulti) Start(ctx context.Context, e *Event) context.Context {
	for _, s := range m.starters {
		ctx = s.Start(ctx, e)
	}
	return ctx
}
