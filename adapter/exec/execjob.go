package execjob

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/tenetdev/tenet/internal/busy"
	"github.com/tenetdev/tenet/internal/procgroup"
	"github.com/tenetdev/tenet/job"
)

// Type is the job type under which the command line registers the handler.
const Type = "exec"

// Payload is the command.
type Payload struct {
	Argv  []string          `json:"argv"`
	Env   map[string]string `json:"env"`
	Dir   string            `json:"dir"`
	Stdin string            `json:"stdin"`
}

// Output is the output of a completed job: the ends of the command's stdout and stderr.
type Output struct {
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// Options configure the handler.
type Options struct {
	// MaxOutput bounds the kept parts of stdout and of stderr, in bytes each. Default 32 KiB.
	MaxOutput int
	// KillGrace is the time between SIGTERM and SIGKILL for a command that must stop. Default 5 s.
	KillGrace time.Duration
	// Kill, when closed, kills all running commands, and their attempts fail. May be nil.
	Kill <-chan struct{}
}

const (
	defaultMaxOutput = 32 << 10
	defaultKillGrace = 5 * time.Second

	// outputGrace is how long output is read after the command has ended, if a process that it left behind keeps the output open.
	outputGrace = 250 * time.Millisecond
)

// ExitError reports a command that failed.
type ExitError struct {
	Code   int            // -1 if a signal ended the command
	Signal syscall.Signal // 0 if it exited
	Stderr string         // its last lines
}

// Error implements error.
func (e *ExitError) Error() string {
	text := fmt.Sprintf("exec: exit code %d", e.Code)
	if e.Signal != 0 {
		text = fmt.Sprintf("exec: ended by signal %d (%v)", int(e.Signal), e.Signal)
	}
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

// Register adds the handler to a worker under [Type].
func Register(w *job.Worker, o Options) { job.Handle(w, Type, Handler(o)) }

// Handler runs the command of a payload.
func Handler(o Options) func(context.Context, job.Job[Payload]) error {
	o.MaxOutput = cmp.Or(max(o.MaxOutput, 0), defaultMaxOutput)
	o.KillGrace = cmp.Or(max(o.KillGrace, 0), defaultKillGrace)
	return func(ctx context.Context, j job.Job[Payload]) error {
		p := j.Payload
		if err := p.Check(); err != nil {
			return job.Unrecoverable(fmt.Errorf("exec: %w", err))
		}
		env := environment(j)
		cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
		stdout, stderr := &tail{limit: o.MaxOutput}, &tail{limit: o.MaxOutput}
		cmd.Env, cmd.Dir, cmd.Stdin = env, p.Dir, strings.NewReader(p.Stdin)
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, outputGrace
		group, err := procgroup.Start(cmd)
		if err != nil {
			if _, failed := os.Stat(p.Dir + "/."); p.Dir != "" && failed != nil { // err blames the command
				err = fmt.Errorf("dir: %w", failed)
			}
			return startError(err)
		}
		stopped := false
		err = group.Wait(ctx, o.Kill, func() procgroup.Stop {
			stopped = true
			return procgroup.Stop{Grace: o.KillGrace}
		})
		if stopped {
			return fmt.Errorf("exec: stopped: %w", cmp.Or(ctx.Err(), errKilled))
		}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			failed := &ExitError{Code: exit.ExitCode(), Stderr: lastLines(stderr.String())}
			if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				failed.Signal = status.Signal()
			}
			return failed
		}
		if err != nil {
			return fmt.Errorf("exec: %w", err)
		}
		raw, err := json.Marshal(Output{Stdout: stdout.String(), Stderr: stderr.String()})
		if err != nil {
			return fmt.Errorf("exec: output: %w", err)
		}
		j.SetOutput(raw)
		return nil
	}
}

var errKilled = errors.New("killed because the worker was stopped at once")

// startError makes the job dead if the command can never start. A lack of processes, files or memory is temporary, and uses up no attempt.
func startError(err error) error {
	err = fmt.Errorf("exec: %w", err)
	if snoozed := busy.Snooze(err); snoozed != nil {
		return snoozed
	}
	for _, lasting := range []error{exec.ErrNotFound, fs.ErrNotExist, fs.ErrPermission, exec.ErrDot, syscall.ENOEXEC, syscall.ENOTDIR, syscall.E2BIG} {
		if errors.Is(err, lasting) {
			return job.Unrecoverable(err)
		}
	}
	return err
}

// Check returns an error, with the name of the field, for a command that cannot be started on any machine.
func (p *Payload) Check() error {
	const nul = "holds a NUL character, which no command can be given"
	if len(p.Argv) == 0 || p.Argv[0] == "" {
		return errors.New("argv: missing; name the command")
	}
	if slices.ContainsFunc(p.Argv, hasNUL) {
		return errors.New("argv: " + nul)
	}
	if hasNUL(p.Dir) {
		return errors.New("dir: " + nul)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if name == "" || hasNUL(name) || strings.Contains(name, "=") {
			return fmt.Errorf("env: %q is not the name of a variable: names are not empty and do not contain \"=\"", name)
		}
		if hasNUL(p.Env[name]) {
			return fmt.Errorf("env: %s: %s", name, nul)
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.ContainsRune(s, 0) }

// environment returns the environment of a command.
func environment(j job.Job[Payload]) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for name, value := range j.Payload.Env {
		env = append(env, name+"="+value)
	}
	return append(env, "TENET_JOB_ID="+j.ID, "TENET_ATTEMPT="+strconv.Itoa(j.Attempt))
}

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	kept  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	if len(p) >= t.limit {
		t.kept = append(t.kept[:0], p[len(p)-t.limit:]...)
		return len(p), nil
	}
	if over := len(t.kept) + len(p) - t.limit; over > 0 {
		t.kept = slices.Delete(t.kept, 0, over)
	}
	t.kept = append(t.kept, p...)
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.kept), string(utf8.RuneError)) }

// lastLines returns the end of a text, for an error message.
func lastLines(s string) string {
	const limit = 500
	s = strings.TrimSpace(s)
	if len(s) > limit {
		s = "…" + strings.ToValidUTF8(s[len(s)-limit:], "")
	}
	return s
}
