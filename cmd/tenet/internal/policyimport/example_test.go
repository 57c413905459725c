package policyimport_test

import (
	"fmt"

	"github.com/tenetdev/tenet/cmd/tenet/internal/policyimport"
)

func ExampleGRPC() {
	c, err := policyimport.GRPC([]byte(`{
		"methodConfig": [{
			"name": [{"service": "users.Users", "method": "Get"}],
			"waitForReady": true,
			"retryPolicy": {
				"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
				"retryableStatusCodes": ["UNAVAILABLE"]
			}
		}]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p := c.Policies["users.Users.Get"].Retry
	fmt.Println(p.MaxAttempts, p.InitialBackoff, p.MaxBackoff, p.RetryOn)
	for _, note := range c.Report {
		if note.Fidelity != policyimport.Exact {
			fmt.Println(note)
		}
	}
	// Output:
	// 4 100ms 1s [grpc_unavailable]
	// methodConfig[0].waitForReady: has no equivalent and is left out
	// methodConfig: needs the grpc classifier and classes, without which nothing is retried: the clients of package tenetgrpc register them, other code must
	// methodConfig: gRPC does not retry methods without an entry; write defaults.calls.retry.max_attempts: 1 for the same
}
