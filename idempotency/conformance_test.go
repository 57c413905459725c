package idempotency_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/testguard"
)

func TestIGuardsMeanTheSameForFunctions(t *testing.T) {
	testguard.Run(t, testguard.Entrance{Results: true, NeedsResult: true, Errors: true, Ask: func(ctx context.Context, _ *testing.T, c testguard.Call) testguard.Answer {
		effect := idempotency.Effect[string]{Request: idempotency.Request{Key: c.Key}, Codec: idempotency.JSON[string]{}}
		o := idempotency.Once(ctx, c.Guard, effect, c.Op)
		got := testguard.Answer{OK: o.Err == nil, Result: o.Value}
		if refused, ok := errors.AsType[*idempotency.RefusedError](o.Err); ok {
			got.Reason, got.Status, got.RetryAfter = refused.Reason, refused.Status(), refused.RetryAfter
		}
		return got
	}})
}
