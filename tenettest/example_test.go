package tenettest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
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

// A recorded incident as a test: the outage of the payment service made charges fail after four attempts.
func ExampleReplay() {
	var t *testing.T    // of the test
	var policies []byte // the document, for example embedded
	document, err := policyfile.Parse("policies.yaml", policies, policyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	replayed := tenettest.Replay(t, "testdata/incident.json", document.Set)
	if end := replayed.End(); end.Attempts > 3 {
		t.Errorf("too many attempts at a payment: %s", end)
	}
}
