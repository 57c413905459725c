//go:build unix

package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/retry"
	"github.com/tenetdev/tenet/tenettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell makes a command that runs a script, and a buffer for its output.
func shell(script string, input io.Reader) (*Command, *bytes.Buffer) {
	out := &bytes.Buffer{}
	return &Command{Argv: []string{"sh", "-c", script}, Input: NewInput(input, 3), Stdout: out, Stderr: out, Grace: 5 * time.Second}, out
}

// call runs c under a policy of three attempts, as edited, without waits.
func call(ctx context.Context, c *Command, edit func(*policy.Policy)) error {
	executor, _ := tenettest.NewExecutor(retry.ExecutorOptions{
		Classifiers: map[string]classify.Classifier{Name: Classifier(Codes{})}, Classes: []classify.Family{Classes()},
	})
	return executor.Do(ctx, policy.ParseKey("run.test"), c.Run, retry.WithCallID("call-1"), retry.WithPolicy(func(p *policy.Policy) {
		p.Retry.ClassifierName = Name
		if edit != nil {
			edit(p)
		}
	}))
}

func reasonOf(t *testing.T, err error) policy.Reason {
	t.Helper()
	failed, ok := errors.AsType[*retry.Error](err)
	if !ok {
		t.Fatalf("got %v, want a *retry.Error", err)
	}
	return failed.Reason
}

func TestEveryAttemptSeesItsNumberTheKeyAndTheCall(t *testing.T) {
	c, out := shell(`echo $TENET_ATTEMPT $TENET_KEY $TENET_CALL_ID; exit 3`, nil)
	err := call(t.Context(), c, nil)
	if got, want := out.String(), "1 run.test call-1\n2 run.test call-1\n3 run.test call-1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if ExitCode(err) != 3 || reasonOf(t, err) != policy.ReasonAttemptsExhausted {
		t.Errorf("got %v", err)
	}
}

func TestTheLastExitCodeIsTheCalls(t *testing.T) {
	c, _ := shell(`exit $((10 + TENET_ATTEMPT))`, nil)
	if got := ExitCode(call(t.Context(), c, nil)); got != 13 {
		t.Errorf("got %d, want 13", got)
	}
	c, _ = shell(`kill -9 $$`, nil)
	if got := ExitCode(call(t.Context(), c, nil)); got != 128+9 {
		t.Errorf("got %d, want 137", got)
	}
}

func TestATimedOutAttemptIsRetriedAndItsCodeIs124(t *testing.T) {
	c, out := shell(`echo $TENET_ATTEMPT; sleep 30 & wait`, nil)
	err := call(t.Context(), c, func(p *policy.Policy) { p.Retry.TimeoutPerAttempt = 50 * time.Millisecond })
	if got := ExitCode(err); got != CodeTimedOut {
		t.Errorf("got %d (%v), want 124", got, err)
	}
	if got := out.String(); got != "1\n2\n3\n" {
		t.Errorf("got %q", got)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v does not match context.DeadlineExceeded", err)
	}
}

func TestAnAttemptThatSucceedsOnlyAfterATimeoutHasFailed(t *testing.T) {
	c, _ := shell(`trap 'exit 0' TERM; sleep 30 & wait`, nil)
	err := call(t.Context(), c, func(p *policy.Policy) {
		p.Retry.TimeoutPerAttempt, p.Retry.MaxAttempts = 50*time.Millisecond, 1
	})
	if got := ExitCode(err); got != CodeTimedOut {
		t.Errorf("got %d (%v), want 124", got, err)
	}
}

func TestAProgramThatCannotBeStartedIsNotRetried(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"no-such-program": CodeNotFound, "/no/such/program": CodeNotFound, plain: CodeNotExecutable} {
		err := call(t.Context(), &Command{Argv: []string{name}}, nil)
		failed, _ := errors.AsType[*retry.Error](err)
		if failed == nil || failed.Attempts != 1 || ExitCode(err) != want {
			t.Errorf("%s: got %v with code %d, want code %d after 1 attempt", name, err, ExitCode(err), want)
		}
	}
}

func TestAScriptWithoutItsInterpreterIsNotCalledMissing(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/does/not/exist\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &Command{Argv: []string{script}}
	err := c.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the interpreter") || ExitCode(err) != CodeNotFound {
		t.Errorf("%v, exit code %d", err, ExitCode(err))
	}
}

func TestAnInterruptIsForwardedAndEndsTheCall(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	read, write := io.Pipe()
	c := &Command{
		Argv:   []string{"sh", "-c", `trap 'echo got INT; exit 0' INT; echo ready; sleep 30 & wait`},
		Stdout: write, Grace: 5 * time.Second,
	}
	heard := make(chan string)
	go func() {
		buffer := make([]byte, 64)
		n, _ := read.Read(buffer)
		cancel(Interrupt{syscall.SIGINT})
		rest, _ := io.ReadAll(read)
		heard <- string(buffer[:n]) + string(rest)
	}()
	err := call(ctx, c, nil)
	_ = write.Close()
	if got := <-heard; got != "ready\ngot INT\n" {
		t.Errorf("the program printed %q", got)
	}
	if got := ExitCode(err); got != 130 {
		t.Errorf("got %d (%v), want 130", got, err)
	}
	if failed, _ := errors.AsType[*retry.Error](err); failed.Attempts != 1 {
		t.Errorf("%d attempts after an interrupt", failed.Attempts)
	}
}

func TestACallWithoutAnAttemptExitsWith125(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, out := shell("echo ran", nil)
	if got := ExitCode(call(ctx, c, nil)); got != CodeNoAttempt || out.Len() != 0 {
		t.Errorf("got %d and %q", got, out)
	}
}

func TestExitCodeOfOtherErrors(t *testing.T) {
	if got := ExitCode(nil); got != 0 {
		t.Errorf("nil: got %d", got)
	}
	if got := ExitCode(errors.New("other")); got != CodeFailed {
		t.Errorf("other: got %d", got)
	}
}

func TestInputIsTheSameForEveryAttempt(t *testing.T) {
	const text = "one\ntwo\n"
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, []byte("skipped\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	regular, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer regular.Close()
	if _, err := regular.Seek(int64(len("skipped\n")), io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]io.Reader{"stream": strings.NewReader(text), "file": regular} {
		c, out := shell(`cat; exit 1`, source)
		if err := call(t.Context(), c, nil); ExitCode(err) != 1 {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(strings.Repeat(text, 3), out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheFirstAttemptDoesNotWaitForTheEndOfTheInput(t *testing.T) {
	read, write := io.Pipe()
	defer write.Close() // only now: the program must start without it
	c, out := shell(`head -n 1`, read)
	go func() { _, _ = io.WriteString(write, "first\n") }()
	if err := call(t.Context(), c, nil); err != nil {
		t.Error(err)
	}
	if got := out.String(); got != "first\n" {
		t.Errorf("got %q", got)
	}
}

func TestAProgramNeedNotReadItsInput(t *testing.T) {
	c, _ := shell(`exit 0`, bytes.NewReader(make([]byte, 1<<20)))
	if err := call(t.Context(), c, nil); err != nil {
		t.Error(err)
	}
}

func TestInputBeyondItsLimitIsRejectedAndNotRetried(t *testing.T) {
	c, _ := shell(`cat >/dev/null`, bytes.NewReader(make([]byte, maxInput+1)))
	err := call(t.Context(), c, nil)
	if !errors.Is(err, ErrInputTooLong) || reasonOf(t, err) != policy.ReasonNonRetryable {
		t.Errorf("got %v", err)
	}
	c, out := shell(`wc -c`, bytes.NewReader(make([]byte, maxInput)))
	if err := call(t.Context(), c, nil); err != nil || strings.TrimSpace(out.String()) != "10485760" {
		t.Errorf("at the bound: %v, %q", err, out)
	}
}

func TestInputForOneAttemptHasNoLimit(t *testing.T) {
	c, out := shell(`wc -c`, nil)
	c.Input = NewInput(bytes.NewReader(make([]byte, maxInput+1)), 1)
	if err := c.Run(t.Context()); err != nil || strings.TrimSpace(out.String()) != "10485761" {
		t.Errorf("%v, %q", err, out)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

func TestAPartialInputIsAnError(t *testing.T) {
	c, out := shell(`cat >/dev/null; echo done`, io.MultiReader(strings.NewReader("part"), broken{}))
	err := call(t.Context(), c, nil)
	if !errors.Is(err, io.ErrNoProgress) || out.Len() != 0 {
		t.Errorf("got %v and %q", err, out)
	}
}

func TestInputForOneAttemptIsPassedDirectly(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if _, err := write.WriteString("direct"); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	var out bytes.Buffer
	c := &Command{Argv: []string{"cat"}, Input: NewInput(read, 1), Stdout: &out}
	if err := call(t.Context(), c, nil); err != nil || out.String() != "direct" {
		t.Errorf("got %v and %q", err, &out)
	}
}

func TestDevicesAreNotBufferedAsInput(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if NewInput(null, 3) != nil || NewInput(nil, 3) != nil || NewInput((*os.File)(nil), 3) != nil {
		t.Error("a device or nil became an input")
	}
}
