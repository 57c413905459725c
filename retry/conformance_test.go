package retry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tenetdev/tenet/internal/testguard"
	"github.com/tenetdev/tenet/retry"
)

func TestIGuardsMeanTheSameForCalls(t *testing.T) {
	testguard.Run(t, testguard.Entrance{Results: true, NeedsResult: true, Errors: true, Ask: func(ctx context.Context, t *testing.T, c testguard.Call) testguard.Answer {
		got, timeline, err := retry.DoValueWithTimeline(ctx, executor(t, exact(1)), key, c.Op, retry.WithIdempotency(c.Guard, c.Key))
		if _, failed := errors.AsType[*retry.Error](err); failed == timeline.Reason.Succeeded() {
			t.Errorf("%s with %v", timeline.Reason, err)
		}
		return testguard.Answer{OK: timeline.Reason.Succeeded(), Result: got, Reason: timeline.Reason}
	}})
}
