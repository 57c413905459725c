package command

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

// TestAProgramIsStartedAgainAfterAShortageOfDescriptors: a shortage passes, and the program has not run.
func TestAProgramIsStartedAgainAfterAShortageOfDescriptors(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	limit := func(n uint64) {
		l := before
		l.Cur = n
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			t.Fatal(err)
		}
	}
	defer limit(before.Cur)
	c, out := shell("echo ran", nil)
	attempts := 0
	executor, _ := tenettest.NewExecutor(retry.ExecutorOptions{})
	err := executor.Do(t.Context(), policy.ParseKey("run.test"), func(ctx context.Context) error {
		attempts++
		if attempts > 1 {
			return c.Run(ctx)
		}
		limit(3)
		defer limit(before.Cur)
		err := c.Run(ctx)
		if !errors.Is(err, syscall.EMFILE) || err.Error() != "sh cannot be started: too many open files; raise the limit (ulimit -n)" {
			t.Errorf("first attempt: %v", err)
		}
		return err
	})
	if err != nil || out.String() != "ran\n" || attempts != 2 {
		t.Errorf("%d attempts, output %q: %v", attempts, out.String(), err)
	}
}
