//go:build unix

package command_test

import (
	"context"
	"fmt"
	"os"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
)

func ExampleCommand() {
	executor := retry.NewExecutor(retry.ExecutorOptions{
		Classifiers: map[string]classify.Classifier{command.Name: command.Classifier(command.Codes{})},
	})
	c := &command.Command{
		Argv:   []string{"sh", "-c", `echo "attempt $TENET_ATTEMPT"; test $TENET_ATTEMPT -eq 2`},
		Stdout: os.Stdout,
	}
	err := executor.Do(context.Background(), policy.ParseKey("run.flaky"), c.Run,
		retry.WithPolicy(func(p *policy.Policy) { p.Retry.ClassifierName = command.Name }))
	fmt.Println("exit code", command.ExitCode(err))
	// Output:
	// attempt 1
	// attempt 2
	// exit code 0
}
