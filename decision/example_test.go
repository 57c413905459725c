package decision_test

import (
	"fmt"
	"time"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

var orders = policy.Retry{
	MaxAttempts: 3, InitialBackoff: 100 * time.Millisecond, BackoffMultiplier: 2, MaxBackoff: time.Second,
	Jitter: policy.JitterFull, MaxPushback: time.Minute,
}

// All attempts of one unit of work fail: the delays depend only on its ID.
func Example() {
	for attempt := 1; ; attempt++ {
		outcome, rule := decision.Judge(&orders, &decision.Facts{Failed: true})
		verdict := decision.Next(&orders, &decision.State{
			Surface: policy.SurfaceCall, Attempt: attempt, Left: decision.Unbounded, Seed: decision.Seed("order-4711"),
		}, &outcome)
		fmt.Println(attempt, outcome.Kind, rule, "→", verdict.Action, verdict.Delay, verdict.Reason)
		if verdict.Action != decision.Retry {
			break
		}
	}
	// Output:
	// 1 retryable default → retry 76.823244ms retry
	// 2 retryable default → retry 181.495256ms retry
	// 3 retryable default → stop 0s attempts_exhausted
}

func ExampleDelay() {
	r := orders
	r.Jitter = policy.JitterNone
	for i := range 6 {
		fmt.Print(decision.Delay(&r, 0, i), " ")
	}
	fmt.Println(decision.Delay(&r, 0, 1_000_000))
	// Output: 100ms 200ms 400ms 800ms 1s 1s 1s
}

// A primary and one hedge: the primary fails, the hedge succeeds and decides.
func ExampleGroup() {
	var g decision.Group
	g.Launch()
	fmt.Println("may hedge:", g.MayHedge())
	g.Launch()
	fmt.Println("decided:", g.End(1, classify.Outcome{Kind: classify.Retryable, Reason: policy.ReasonError}))
	fmt.Println("decided:", g.End(2, classify.Outcome{Kind: classify.Success, Reason: policy.ReasonSuccess}))
	outcome, launch := g.Outcome()
	fmt.Println(outcome.Kind, "by launch", launch)
	// Output:
	// may hedge: true
	// decided: false
	// decided: true
	// success by launch 2
}
