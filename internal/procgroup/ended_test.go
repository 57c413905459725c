//go:build unix

package procgroup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
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

// TestACommandWhoseOutputIsStillReadIsNotStopped: the context ends after the command, which has left behind a process.
func TestACommandWhoseOutputIsStillReadIsNotStopped(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 60 & echo $!")
	var out strings.Builder
	cmd.Stdout, cmd.WaitDelay = &out, 500*time.Millisecond
	g, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	for !errors.Is(cmd.Process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = g.Wait(ctx, nil, func() Stop {
		t.Error("the stop function was called")
		return Stop{}
	})
	if err != nil {
		t.Error(err)
	}
	left, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(left, syscall.SIGKILL); err != nil {
		t.Errorf("the process that the command left behind did not keep running: %v", err)
	}
}
