package execjob_test

import (
	"context"
	"fmt"

	execjob "github.com/tenetdev/tenet/adapter/exec"
	"github.com/tenetdev/tenet/job"
)

func ExampleHandler() {
	handle := execjob.Handler(execjob.Options{})
	err := handle(context.Background(), job.Job[execjob.Payload]{
		ID: "job-1", Payload: execjob.Payload{Argv: []string{"sh", "-c", "echo no disk >&2; exit 3"}},
	})
	fmt.Println(err)
	// Output: exec: exit code 3: no disk
}
