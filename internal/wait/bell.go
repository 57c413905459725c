package wait

import (
	"context"
	"sync"
)

// Bell passes signals on to its listeners. The zero value is ready; it is safe for concurrent use.
type Bell struct {
	mu        sync.Mutex // guards both
	listeners map[Signal]struct{}
	closed    bool
}

// Listen returns a channel that receives a signal after each Ring; unread signals are merged. The channel is closed when ctx
// ends or the bell is closed.
func (b *Bell) Listen(ctx context.Context) <-chan struct{} {
	c := NewSignal()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		close(c)
		return c
	}
	if b.listeners == nil {
		b.listeners = map[Signal]struct{}{}
	}
	b.listeners[c] = struct{}{}
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, open := b.listeners[c]; open {
			delete(b.listeners, c)
			close(c)
		}
	})
	return c
}

// Ring signals every listener.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.listeners {
		c.Send()
	}
}

// Close closes the channels of all listeners. Closing again does nothing.
func (b *Bell) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for c := range b.listeners {
		close(c)
	}
	clear(b.listeners)
}
