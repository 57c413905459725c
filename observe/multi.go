package observe

import (
	"context"
	"slices"
)

// Multi returns an Observer that passes each event to the observers in their order; nil observers are dropped. It is a
// [Starter] if any of them is one: start events go to the starters, each with the context that the one before it returned.
// Without observers Multi returns nil, with one it returns that observer itself.
//
// If an observer panics, those after it do not receive the event.
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

// Observe passes the event to every observer.
func (m multi) Observe(ctx context.Context, e *Event) {
	for _, o := range m {
		o.Observe(ctx, e)
	}
}

// startingMulti is a separate type, so that executors skip start events without a Starter.
type startingMulti struct {
	multi
	starters []Starter
}

// Start chains the starters.
func (m startingMulti) Start(ctx context.Context, e *Event) context.Context {
	for _, s := range m.starters {
		if derived := s.Start(ctx, e); derived != nil {
			ctx = derived
		}
	}
	return ctx
}
