package httpjob_test

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/adapter/http/httpjob"
	"github.com/tenetdev/tenet/job"
)

// Handlers refuse addresses of private networks unless an option allows them.
func ExampleHandler() {
	handle := httpjob.Handler(httpjob.Options{})
	err := handle(context.Background(), job.Job[httpjob.Payload]{
		ID: "job-1", Payload: httpjob.Payload{URL: "http://127.0.0.1:1/hook"},
	})
	fmt.Println(err)
	// Output: http: dial tcp 127.0.0.1:1: address 127.0.0.1 is private, local or otherwise special; if jobs may reach it, start the worker with --allow-private-networks (httpjob.Options.AllowPrivateNetworks)
}
