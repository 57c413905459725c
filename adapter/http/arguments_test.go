package tenethttp_test

import (
	"context"
	"net/http"
	"testing"

	tenethttp "github.com/tenetdev/tenet/adapter/http"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/testargument"
	"github.com/tenetdev/tenet/policy"
)

func TestO3MissingArgumentsAreNamedAtOnce(t *testing.T) {
	var none context.Context
	testargument.Refused(t, map[string]func() error{
		`tenethttp: Do: the request is nil`: func() error { _, err := new(tenethttp.Client).Do(t.Context(), nil, policy.ParseKey("k")); return err },
		`tenethttp: Do: the context is nil`: func() error {
			_, err := new(tenethttp.Client).Do(none, &http.Request{}, policy.ParseKey("k"))
			return err
		},
		`tenethttp: RoundTrip: the request is nil`: func() error { _, err := new(tenethttp.Transport).RoundTrip(nil); return err },
		`tenethttp: Idempotent: the guard is nil`:  func() error { tenethttp.Idempotent(nil, tenethttp.IdempotencyOptions{}); return nil },
		`tenethttp: Idempotent: the handler is nil`: func() error {
			tenethttp.Idempotent(new(idempotency.Guard), tenethttp.IdempotencyOptions{})(nil)
			return nil
		},
		`tenethttp: Shed: the key is nil`:                func() error { tenethttp.Shed(tenethttp.ServerOptions{}); return nil },
		`tenethttp: NewStatusError: the response is nil`: func() error { _ = tenethttp.NewStatusError(nil); return nil },
	})
}
