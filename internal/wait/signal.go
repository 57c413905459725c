package wait

import "context"

// Signal wakes one goroutine. Signals that are sent before it receives are merged into one.
type Signal chan struct{}

// NewSignal makes a signal. Nothing is received from a nil one, and sending to it does nothing.
func NewSignal() Signal { return make(Signal, 1) }

// Send sends a signal, without blocking.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Mutex is a lock whose waiters leave when their context ends.
type Mutex chan struct{}

// NewMutex makes a mutex that nobody holds.
func NewMutex() Mutex { return make(Mutex, 1) }

// Lock waits for the lock. It returns the cause of ctx's end if that comes first; the caller then does not hold the lock.
func (m Mutex) Lock(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock releases the lock, which the caller must hold.
func (m Mutex) Unlock() { <-m }
