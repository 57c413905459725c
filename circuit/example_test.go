package circuit_test

import (
	"fmt"
	"time"

	"github.com/tenetdev/tenet/circuit"
	"github.com/tenetdev/tenet/policy"
)

func Example() {
	b := circuit.New(policy.Circuit{Kind: policy.CircuitConsecutive, Failures: 2, Cooldown: 10 * time.Second, Probes: 1})
	attempt := func(now time.Duration, r circuit.Result) {
		ticket, began, ok := b.Acquire(now, false)
		if !ok {
			fmt.Printf("%v: refused, ask again in %v\n", now, b.Wait(now))
			return
		}
		if began.Changed() {
			fmt.Printf("%v: %v -> %v\n", now, began.From, began.To)
		}
		if ended := b.Done(ticket, r, time.Millisecond, now); ended.Changed() {
			fmt.Printf("%v: %v -> %v\n", now, ended.From, ended.To)
		}
	}
	attempt(1*time.Second, circuit.Failure)
	attempt(2*time.Second, circuit.Failure)
	attempt(5*time.Second, circuit.Success)
	attempt(12*time.Second, circuit.Success)
	// Output:
	// 2s: closed -> open
	// 5s: refused, ask again in 7s
	// 12s: open -> half_open
	// 12s: half_open -> closed
}
