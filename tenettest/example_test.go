package tenettest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

func ExampleNewExecutor() {
	executor, waits := tenettest.NewExecutor(retry.ExecutorOptions{})
	err := executor.Do(context.Background(), policy.ParseKey("mail.Send"), func(context.Context) error {
		return errors.New("unavailable")
	}, retry.WithPolicy(func(p *policy.Policy) { p.Retry.Jitter = policy.JitterNone }))
	fmt.Println(err)
	fmt.Println(waits.All())
	// Output:
	// tenet: mail.Send: attempts_exhausted after 3 attempts: unavailable
	// [10ms 20ms]
}
