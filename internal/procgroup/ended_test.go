//go:build unix

package procgroup

import (
	"context"
	"os/exec"
	"testing"
)

// TestACommandThatHasEndedIsNotStopped: the context is also done when Wait checks.
func TestACommandThatHasEndedIsNotStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		g, err := Start(exec.Command("true"))
		if err != nil {
			t.Fatal(err)
		}
		<-g.exited
		err = g.Wait(ctx, nil, func() Stop {
			t.Error("the stop function was called")
			return Stop{}
		})
		if err != nil {
			t.Error(err)
		}
	}
}
