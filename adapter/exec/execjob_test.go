package execjob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/classify"
	"github.com/tenetdev/tenet/internal/busy"
	"github.com/tenetdev/tenet/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(ctx context.Context, p Payload) error {
	return Handler(Options{})(ctx, job.Job[Payload]{ID: "job-1", Attempt: 2, Payload: p})
}

func TestExitCodeDecides(t *testing.T) {
	if err := run(t.Context(), Payload{Argv: []string{"true"}}); err != nil {
		t.Error(err)
	}
	err := run(t.Context(), Payload{Argv: []string{"sh", "-c", "echo broken >&2; exit 7"}})
	if exit, ok := errors.AsType[*ExitError](err); !ok || exit.Code != 7 || exit.Stderr != "broken" {
		t.Errorf("%v", err)
	}
	if mark, _ := classify.MarkOf(err); mark != classify.Unmarked {
		t.Error("a failed command must be retried")
	}
}

func TestCommandsThatCannotStartAreDeadAtOnce(t *testing.T) {
	for _, argv := range [][]string{nil, {""}, {"/no/such/command"}} {
		if mark, _ := classify.MarkOf(run(t.Context(), Payload{Argv: argv})); mark != classify.MarkPermanent {
			t.Errorf("%q: mark %v", argv, mark)
		}
	}
	for _, p := range []Payload{{Argv: []string{"true", "a\x00"}}, {Argv: []string{"true"}, Env: map[string]string{"A": "\x00"}}, {Argv: []string{"true"}, Dir: "/\x00"}} {
		if mark, _ := classify.MarkOf(run(t.Context(), p)); mark != classify.MarkPermanent {
			t.Errorf("%q: mark %v", p, mark)
		}
	}
}

func TestNamesThatSetAnotherVariableAreRefused(t *testing.T) {
	for _, name := range []string{"", "PATH=/tmp:", "=", "A=B"} {
		err := run(t.Context(), Payload{Argv: []string{"true"}, Env: map[string]string{name: "x"}})
		if mark, _ := classify.MarkOf(err); mark != classify.MarkPermanent || !strings.Contains(fmt.Sprint(err), fmt.Sprintf("env: %q is not the name of a variable", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestEnvironmentIsSmall(t *testing.T) {
	t.Setenv("TENET_STORE", "postgres://user:secret@host/db")
	dir := t.TempDir()
	err := run(t.Context(), Payload{
		Argv:  []string{"sh", "-c", `env > out; cat >> out`},
		Env:   map[string]string{"EXTRA": "1"},
		Stdin: "from stdin", Dir: dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(dir + "/out")
	if err != nil {
		t.Fatal(err)
	}
	out := string(raw)
	for _, want := range []string{"EXTRA=1", "TENET_JOB_ID=job-1", "TENET_ATTEMPT=2", "from stdin", "PATH="} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
	if strings.Contains(out, "secret") {
		t.Error("the worker's environment leaked into the command")
	}
}

func TestCancelledCommandIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, Payload{Argv: []string{"sleep", "60"}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestKillEndsACommandThatIgnoresSignals(t *testing.T) {
	kill := make(chan struct{})
	dir := t.TempDir()
	done := make(chan error)
	go func() {
		p := Payload{Argv: []string{"sh", "-c", "trap '' TERM; touch started; sleep 60"}, Dir: dir}
		done <- Handler(Options{KillGrace: time.Hour, Kill: kill})(t.Context(), job.Job[Payload]{Payload: p})
	}()
	for {
		if _, err := os.Stat(dir + "/started"); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(kill)
	if err := <-done; !errors.Is(err, errKilled) {
		t.Error(err)
	}
}

func TestAJobDoesNotWaitForWhatItsCommandLeavesRunning(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dir := t.TempDir()
	if err := run(ctx, Payload{Argv: []string{"sh", "-c", "sleep 60 & echo $! >pid"}, Dir: dir}); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.FindProcess(pid)
	if err == nil {
		err = left.Kill()
	}
	if err != nil {
		t.Errorf("the process that the command left behind did not keep running: %v", err)
	}
}

func TestASignalThatEndsACommandIsNamed(t *testing.T) {
	err := run(t.Context(), Payload{Argv: []string{"sh", "-c", "echo oops >&2; kill -9 $$"}})
	if exit, ok := errors.AsType[*ExitError](err); !ok || exit.Signal != syscall.SIGKILL || err.Error() != "exec: ended by signal 9 (killed): oops" {
		t.Errorf("%v", err)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	kept := &tail{limit: 5}
	for _, s := range []string{"ab", "cdef", "g", "0123456789", "x"} {
		_, _ = kept.Write([]byte(s))
	}
	if kept.String() != "6789x" {
		t.Errorf("kept %q", kept)
	}
}

func TestCommandsThatCanNeverStartArePermanentFailures(t *testing.T) {
	for _, err := range []error{exec.ErrNotFound, syscall.EACCES, syscall.ENOEXEC} {
		if mark, _ := classify.MarkOf(startError(err)); mark != classify.MarkPermanent {
			t.Errorf("%v: mark %v", err, mark)
		}
	}
}

func TestAFolderThatCannotBeEnteredIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]error{filepath.Join(t.TempDir(), "missing"): fs.ErrNotExist, file: syscall.ENOTDIR} {
		err := run(t.Context(), Payload{Argv: []string{"true"}, Dir: dir})
		mark, _ := classify.MarkOf(err)
		if !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "exec: dir: stat "+dir) || mark != classify.MarkPermanent {
			t.Errorf("%v", err)
		}
	}
}

// TestJ8AJobThatABusyMachineCannotStartUsesUpNoAttempt: it waits, and its history says why.
func TestJ8AJobThatABusyMachineCannotStartUsesUpNoAttempt(t *testing.T) {
	for _, cause := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.Open().Jobs()
			receipt, err := job.NewClient(store).Enqueue(t.Context(), job.Request{Type: Type, MaxAttempts: 1})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			w := job.NewWorker(store)
			job.Handle(w, Type, func(context.Context, job.Job[Payload]) error {
				cancel()
				return startError(&fs.PathError{Op: "fork/exec", Path: "/bin/true", Err: cause})
			})
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
			r, history, err := store.Get(t.Context(), receipt.ID)
			if err != nil {
				t.Fatal(err)
			}
			if r.State != job.Scheduled || r.Failures != 0 || r.RunAt.Sub(r.ClaimedAt) != busy.Delay || len(history) != 1 ||
				!strings.Contains(history[0].Error, cause.Error()) {
				t.Errorf("%v: %s at %v after %d failures, %+v", cause, r.State, r.RunAt, r.Failures, history)
			}
		})
	}
}
