package tenetnats

import (
	"context"
	"errors"
	"testing"

	"github.com/tenetdev/tenet/internal/testguard"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func TestIGuardsMeanTheSameForNATS(t *testing.T) {
	testguard.Run(t, testguard.Entrance{Results: true, NeedsResult: true, Errors: true, Ask: func(ctx context.Context, _ *testing.T, c testguard.Call) testguard.Answer {
		client := &Client{Executor: retry.NewExecutor(retry.ExecutorOptions{})}
		options := []retry.CallOption{
			retry.WithIdempotency(c.Guard, c.Key), retry.WithPolicy(func(p *policy.Policy) { p.Retry.MaxAttempts = 1 }),
		}
		got, err := do(ctx, client, operation{policy.KVGet, "KVGet", "bucket/key", options}, c.Op)
		failure, failed := errors.AsType[*retry.Error](err)
		if !failed { // an error with a result means that the result was not recorded
			return testguard.Answer{OK: true, Result: got}
		}
		return testguard.Answer{Reason: failure.Reason}
	}})
}
