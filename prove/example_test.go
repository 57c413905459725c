package prove_test

import (
	"fmt"

	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/prove"
)

func ExampleDocument() {
	document, err := policyfile.Parse("policies.yaml", []byte(`
version: 1
policies:
  users.Get:
    retry: {max_attempts: 4, backoff: 1s, backoff_cap: 4s, jitter: none, overall_timeout: 2s}
`), policyfile.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	findings, err := prove.Document(document, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range prove.Violations(findings) {
		fmt.Printf("%d: %s: %s\n", f.Line, f.Code, f.Message)
		for _, step := range f.Counterexample.Steps {
			fmt.Printf("   attempt %d fails: %s\n", step.Attempt, step.Answer)
		}
	}
	// Output:
	// 5: attempt-unreachable: users.Get: attempt 3 of 4 can never start: even if every attempt fails at once, it is due 3s after the first, and retry.overall_timeout is 2s
	//    attempt 1 fails: retry after 1s
	//    attempt 2 fails: stop: overall_timeout
}
