package policyfile_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

func Example() {
	document, err := policyfile.Parse("policies.yaml", []byte(`
version: 1
defaults:
  calls: {retry: {backoff: 50ms, backoff_cap: 2s}}
policies:
  user-service.GetUser: {retry: {max_attempts: 4, timeout: 300ms}}
`), policyfile.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	key := policy.ParseKey("user-service.GetUser")
	p, _ := document.Set.Policy(context.Background(), key)
	fmt.Println(p.Retry.MaxAttempts, p.Retry.TimeoutPerAttempt, p.Retry.InitialBackoff)
	fmt.Println(document.Origin(key, "retry.backoff"))
	// Output:
	// 4 300ms 50ms
	// defaults.calls.retry.backoff 4
}

func ExampleError() {
	_, err := policyfile.Parse("policies.yaml", []byte(`version: 1
policies:
  a: {retry: {max_attemps: 3, backoff: -1}}
`), policyfile.Options{})
	var refused *policyfile.Error
	if errors.As(err, &refused) {
		for _, fault := range refused.Faults {
			fmt.Println(fault)
			fmt.Println(fault.Caret())
		}
	}
	// Output:
	// policies.yaml:3:15: policies.a.retry.max_attemps: unknown field "max_attemps"; did you mean "max_attempts"?
	//   a: {retry: {max_attemps: 3, backoff: -1}}
	//               ^
	// policies.yaml:3:40: policies.a.retry.backoff: -1 must be at least 0; write 0 or more, or leave the field out
	//   a: {retry: {max_attemps: 3, backoff: -1}}
	//                                        ^
}

func ExampleFile_Marshal() {
	text, _ := policyfile.File{Policies: map[string]policy.Policy{
		"user-service.GetUser": {Retry: policy.Retry{MaxAttempts: 4}},
	}}.Marshal()
	fmt.Print(string(text))
	// Output:
	// version: 1
	// policies:
	//   user-service.GetUser:
	//     retry:
	//       max_attempts: 4
}
