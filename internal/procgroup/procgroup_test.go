//go:build unix

package procgroup_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/internal/procgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is a timeout that no passing test reaches.
const long = 30 * time.Second

// start runs a shell script and returns its group with the lines that it prints.
func start(t *testing.T, script string) (*procgroup.Group, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	cmd.Stdout = in
	g, err := procgroup.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	return g, bufio.NewReader(out)
}

func readLine(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return strings.TrimSpace(line)
}

func pid(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	n, err := strconv.Atoi(readLine(t, r))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// running reports whether the process exists and is not a zombie.
func running(t *testing.T, pid int) bool {
	t.Helper()
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

func stopNow(ctx context.Context, t *testing.T, g *procgroup.Group, s procgroup.Stop) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	began := time.Now()
	err := g.Wait(ctx, nil, func() procgroup.Stop { return s })
	return time.Since(began), err
}

func TestACommandThatEndsByItselfIsNotStopped(t *testing.T) {
	g, out := start(t, "sleep 60 >/dev/null 2>&1 & echo $!; exit 3")
	child := pid(t, out)
	err := g.Wait(context.Background(), nil, func() procgroup.Stop {
		t.Error("the stop function was called")
		return procgroup.Stop{}
	})
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("got %v, want exit status 3", err)
	}
	if !running(t, child) {
		t.Error("the process that the command left behind was stopped")
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestStopReachesGrandchildren(t *testing.T) {
	g, out := start(t, "sh -c 'sleep 60 & echo $!; wait' & wait")
	grandchild := pid(t, out)
	took, _ := stopNow(t.Context(), t, g, procgroup.Stop{Grace: long})
	if took >= long {
		t.Errorf("waited out the grace period")
	}
	if running(t, grandchild) {
		t.Error("the grandchild is still running")
	}
}

func TestStopKillsAProcessThatIgnoresTheSignal(t *testing.T) {
	g, out := start(t, "trap '' TERM; echo ready; while :; do sleep 0.02; done")
	if got := readLine(t, out); got != "ready" {
		t.Fatalf("got %q", got)
	}
	_, err := stopNow(t.Context(), t, g, procgroup.Stop{Grace: 50 * time.Millisecond})
	if err == nil || err.Error() != "signal: killed" {
		t.Errorf("got %v, want signal: killed", err)
	}
}

func TestStopKillsAGrandchildThatOutlivesItsLeader(t *testing.T) {
	g, out := start(t, "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.02; done' & wait")
	grandchild := pid(t, out)
	took, _ := stopNow(t.Context(), t, g, procgroup.Stop{Grace: 60 * time.Millisecond})
	if took < 60*time.Millisecond {
		t.Errorf("killed after %v, before the end of the grace period", took)
	}
	for range 1000 { // SIGKILL is asynchronous
		if !running(t, grandchild) {
			return
		}
	}
	t.Error("the grandchild is still running")
}

func TestStopForwardsTheSignalGiven(t *testing.T) {
	g, out := start(t, "trap 'exit 9' INT; echo ready; while :; do sleep 0.02; done")
	readLine(t, out)
	_, err := stopNow(t.Context(), t, g, procgroup.Stop{Signal: syscall.SIGINT, Grace: long})
	if err == nil || err.Error() != "exit status 9" {
		t.Errorf("got %v, want exit status 9", err)
	}
}

func TestStopWithoutGraceKillsAtOnce(t *testing.T) {
	g, out := start(t, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done")
	readLine(t, out)
	if _, err := stopNow(t.Context(), t, g, procgroup.Stop{}); err == nil || err.Error() != "signal: killed" {
		t.Errorf("got %v, want signal: killed", err)
	}
}

func TestKillEndsAGroupAtOnce(t *testing.T) {
	for _, ctx := range []context.Context{t.Context(), done()} { // also in its grace period
		g, out := start(t, "trap '' TERM; echo ready; while :; do sleep 0.02; done")
		readLine(t, out)
		kill := make(chan struct{})
		close(kill)
		began := time.Now()
		err := g.Wait(ctx, kill, func() procgroup.Stop { return procgroup.Stop{Grace: long} })
		if took := time.Since(began); err == nil || err.Error() != "signal: killed" || took >= long {
			t.Errorf("got %v after %v", err, took)
		}
	}
}

func done() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestOutputHeldOpenByALeftoverDoesNotBlock(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 60 & echo $!")
	var out strings.Builder
	cmd.Stdout = &out
	cmd.WaitDelay = 20 * time.Millisecond
	g, err := procgroup.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(t.Context(), nil, func() procgroup.Stop { return procgroup.Stop{} }); err != nil {
		t.Errorf("got %v, want success", err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(child, syscall.SIGKILL)
}

func TestStartReportsACommandThatCannotStart(t *testing.T) {
	if _, err := procgroup.Start(exec.Command("/does/not/exist")); err == nil {
		t.Error("no error")
	}
}
