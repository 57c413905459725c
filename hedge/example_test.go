package hedge_test

import (
	"fmt"
	"time"

	"github.com/tenetdev/tenet/hedge"
	"github.com/tenetdev/tenet/policy"
)

func Example() {
	h := policy.Hedge{Enabled: true, HedgeDelay: 200 * time.Millisecond, TriggerName: policy.TriggerP95}
	trigger, _ := hedge.Builtin(h.TriggerName)

	var latencies hedge.Digest
	delay, _ := trigger.Delay(h, &latencies)
	fmt.Println("nothing known:", delay)

	for i := range 100 {
		latencies.Add(time.Duration(i+1) * time.Millisecond)
	}
	delay, _ = trigger.Delay(h, &latencies)
	fmt.Println("after 100 calls of 1 to 100 ms:", delay.Round(5*time.Millisecond))

	var load hedge.Load
	for range 100 {
		load.Call()
	}
	for i := range 3 {
		fmt.Printf("hedge %d of 100 calls at 2 %%: %v\n", i+1, load.TryHedge(0.02))
	}
	// Output:
	// nothing known: 200ms
	// after 100 calls of 1 to 100 ms: 95ms
	// hedge 1 of 100 calls at 2 %: true
	// hedge 2 of 100 calls at 2 %: true
	// hedge 3 of 100 calls at 2 %: false
}

// OffPeak hedges at a percentile, and never in the busy hours.
type OffPeak struct{ hour func() int }

func (o OffPeak) Delay(h policy.Hedge, d *hedge.Digest) (time.Duration, bool) {
	if hour := o.hour(); hour >= 8 && hour < 18 {
		return 0, false
	}
	return hedge.Percentile(0.9).Delay(h, d)
}

func ExampleTrigger() {
	h := policy.Hedge{Enabled: true, HedgeDelay: 200 * time.Millisecond}
	for _, hour := range []int{3, 12} {
		delay, ok := OffPeak{hour: func() int { return hour }}.Delay(h, nil)
		fmt.Println(hour, delay, ok)
	}
	// Output:
	// 3 200ms true
	// 12 0s false
}
