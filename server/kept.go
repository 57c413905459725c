package server

import (
	"context"
	"time"

	"github.com/tenetdev/tenet/internal/wait"
)

// kept holds what was last read from a store, for everybody who does not need it newer.
type kept[T any] struct {
	age  time.Duration // for which it is used again
	read func(context.Context) (T, error)

	hold  wait.Mutex // guards the fields below
	at    time.Time  // zero if nothing was read yet
	value T          // never changed
}

func keep[T any](age time.Duration, read func(context.Context) (T, error)) *kept[T] {
	return &kept[T]{age: age, read: read, hold: wait.NewMutex()}
}

// get returns what was read at most that long ago, and when it was. The caller does not change it.
func (k *kept[T]) get(ctx context.Context) (value T, at time.Time, err error) {
	if k.hold.Lock(ctx) != nil {
		return value, at, ctx.Err()
	}
	defer k.hold.Unlock()
	if now := time.Now(); k.at.IsZero() || now.Sub(k.at) >= k.age {
		if value, err = k.read(ctx); err != nil {
			return value, at, err
		}
		k.value, k.at = value, now
	}
	return k.value, k.at, nil
}
