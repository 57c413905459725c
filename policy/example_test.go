package policy_test

import (
	"fmt"
	"time"

	"github.com/tenetdev/tenet/policy"
)

func ExamplePolicy_Normalize() {
	p, err := policy.Policy{
		Key:   policy.ParseKey("user-service.GetUser"),
		Retry: policy.Retry{MaxAttempts: 50, TimeoutPerAttempt: 300 * time.Millisecond},
	}.Normalize(policy.CallLimits())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Retry.MaxAttempts, p.Retry.InitialBackoff, p.Retry.MaxBackoff, p.Retry.Jitter)
	fmt.Println("clamped:", p.Meta.Clamped)
	// Output:
	// 10 10ms 250ms full
	// clamped: [retry.max_attempts]
}

func ExamplePolicy_Validate() {
	err := policy.Policy{Retry: policy.Retry{MaxAttempts: -1, BackoffMultiplier: 0.5}}.Validate(policy.CallLimits())
	fmt.Println(err)
	// Output:
	// policy: retry.max_attempts: -1 must be at least 1; write 1 or more, or leave the field out
	// retry.backoff_multiplier: 0.5 must be at least 1; write 1 or more, or leave the field out
}
