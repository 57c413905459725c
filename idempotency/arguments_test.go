package idempotency_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/testargument"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	ctx, store := t.Context(), memory.Open().Idempotency()
	guard, err := idempotency.NewGuard(store, idempotency.GuardOptions{Operation: "o"})
	if err != nil {
		t.Fatal(err)
	}
	value := func(context.Context) (int, error) { return 0, nil }
	testargument.Refused(t, map[string]func() error{
		`idempotency: NewGuard: the store is nil`: func() error { _, err := idempotency.NewGuard(nil, idempotency.GuardOptions{}); return err },
		`idempotency: the operation is nil`:       func() error { _, err := guard.Do(ctx, idempotency.Request{Key: "k"}, nil); return err },
		`idempotency: the guard is nil`: func() error {
			_, err := idempotency.DoValue(ctx, nil, idempotency.Request{Key: "k"}, value)
			return err
		},
		`idempotency: the context is nil`: func() error {
			_, err := guard.Begin(none, idempotency.Request{Key: "k"})
			return err
		},
	})
	if _, err := store.Get(ctx, idempotency.ID{Operation: "o", Key: "k"}); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("a claim is left behind: %v", err)
	}
}
