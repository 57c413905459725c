package rollout_test

import (
	"fmt"
	"time"

	"github.com/tenetdev/tenet/rollout"
)

func ExampleJudge() {
	plan := rollout.Plan{Steps: []rollout.Step{{Share: 0.1, Hold: time.Minute}, {Share: 1}}}

	// 18 clients on the old revision and two on the new one, whose calls fail four times as often.
	var base, candidate rollout.Counters
	for range 18 {
		base.AddClient(rollout.Counters{Calls: 10_000, Failures: 100})
	}
	for range 2 {
		candidate.AddClient(rollout.Counters{Calls: 10_000, Failures: 400})
	}
	j := rollout.Judge(plan, rollout.Observation{Elapsed: 20 * time.Second, Base: base, Candidate: candidate})
	failures := j.Measures[0]
	fmt.Println(j.Verdict, j.Reason)
	fmt.Printf("%.0f %% instead of %.0f %%: between %.1f and %.1f points more\n",
		100*failures.Candidate, 100*failures.Base, 100*failures.Low, 100*failures.High)
	// Output:
	// revert failures
	// 4 % instead of 1 %: between 2.1 and 3.9 points more
}

func ExampleAssign() {
	place := rollout.Assign("orders-7f9c", 42)
	plan := rollout.Plan{}.WithDefaults()
	for step := range plan.Steps {
		fmt.Println(plan.Steps[step].Share, plan.Selects(step, place, nil))
	}
	// Output:
	// 0.01 false
	// 0.1 false
	// 0.5 true
	// 1 true
}
