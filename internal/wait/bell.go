package wait

import (
	"context"
	"sync"
)

// Bell passes signals on to its listeners. The zero value is ready; it is safe for concurrent use.
type Bell struct {
	mu        sync.Mutex      // guards both
	listeners map[Signal]bool // whether the bell closes the channel
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
	b.add(c, true)
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

// Join makes Ring signal c too, until leave is called. The bell does not close c.
func (b *Bell) Join(c Signal) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(c, false)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, c)
	}
}

func (b *Bell) add(c Signal, closes bool) {
	if b.listeners == nil {
		b.listeners = map[Signal]bool{}
	}
	b.listeners[c] = closes
}

// Ring signals every listener.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.listeners {
		c.Send()
	}
}

// Close closes the channels that Listen returned. Closing again does nothing.
func (b *Bell) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for c, closes := range b.listeners {
		if closes {
			close(c)
		}
	}
	clear(b.listeners)
}
