package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
)

// output takes the writes of commands and of their loggers, which may come at the same time, as files do.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// runIn runs the command line in this process with the given environment.
func runIn(ctx context.Context, env map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs output
	p := cli.Program{
		Args: args, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs,
		Getenv: func(name string) string { return env[name] }, AddCommands: addCommands,
	}
	return p.Run(ctx), out.String(), errs.String()
}

func TestStdinIsADocument(t *testing.T) {
	code, out, errs := runIn(t.Context(), nil, "version: 1\npolicies: {a.B: {}}\n", "policy", "show", "a.B", "--policy", "-", "-o", "jsonl")
	if code != 0 || errs != "" || !strings.Contains(out, `"source":"file"`) {
		t.Errorf("code %d, stdout %q, stderr %q", code, out, errs)
	}
}

func TestASimulationThatASignalEndsNamesIt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(command.Interrupt{Signal: syscall.SIGTERM})
	code, out, errs := runIn(ctx, nil, "", "simulate", "../../examples/scenarios/webhooks.yaml")
	if code != 143 || out != "" || errs != "tenet: stopped by signal 15 (terminated)\n" {
		t.Errorf("code %d, stdout %q, stderr %q", code, out, errs)
	}
}

// largeImport writes an Envoy configuration of n routes.
func largeImport(t *testing.T, n int) (file string) {
	t.Helper()
	text := strings.Builder{}
	text.WriteString("virtual_hosts:\n- routes:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - {name: r%d, route: {timeout: 1s, retry_policy: {retry_on: 5xx, num_retries: 1}}}\n", i)
	}
	file = filepath.Join(t.TempDir(), "envoy.yaml")
	writeFile(t, file, text.String())
	return file
}

func TestASignalEndsAnImport(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(command.Interrupt{Signal: syscall.SIGTERM})
	code, out, errs := runIn(ctx, nil, "", "policy", "import", "envoy", largeImport(t, 1000))
	if code != 143 || out != "" || strings.Contains(errs, "fields:") {
		t.Errorf("code %d, %d bytes on stdout, stderr %.200s", code, len(out), errs)
	}
}

func TestT7AnImportOfTooManyPoliciesSaysWhatToDo(t *testing.T) {
	code, out, errs := runIn(t.Context(), nil, "", "policy", "import", "envoy", largeImport(t, 5000))
	if code != cli.ExitInvalid || out != "" || !strings.Contains(errs, "import a part at a time") || !strings.Contains(errs, "split the document") {
		t.Errorf("code %d, %d bytes on stdout, stderr ends in %q", code, len(out), errs[max(len(errs)-300, 0):])
	}
}

func TestAnInterruptDecidesTheExitCodeOfEveryCommand(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(command.Interrupt{Signal: signal})
		for _, args := range [][]string{{"demo"}, {"run", "--", "true"}, {"enqueue", "exec", "--store", "sqlite:" + filepath.Join(t.TempDir(), "a.db")}} {
			code, _, errs := runIn(ctx, nil, "", args...)
			if code != want || strings.Contains(errs, "canceled") && !strings.Contains(errs, signal.String()) {
				t.Errorf("%v: code %d, want %d: %s", args, code, want, errs)
			}
		}
		if code, _, _ := runIn(ctx, nil, "", "version"); code != 0 {
			t.Errorf("a command that finished nevertheless has code %d", code)
		}
	}
}

func TestAnInterruptEndsAReadOfStdin(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	read, write := io.Pipe()
	defer write.Close()
	go func() {
		_, _ = io.WriteString(write, "version: 1\n") // the write returns when the command is reading
		cancel(command.Interrupt{Signal: syscall.SIGINT})
	}()
	p := cli.Program{Args: []string{"policy", "check", "-"}, Stdin: read, Stdout: io.Discard, Stderr: io.Discard, AddCommands: addCommands}
	if code := p.Run(ctx); code != 130 {
		t.Errorf("code %d, want 130", code)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	var errs strings.Builder
	p := cli.Program{Args: []string{"policy", "limits"}, Stdout: full{}, Stderr: &errs, AddCommands: addCommands}
	if code := p.Run(t.Context()); code != cli.ExitFailed || !strings.Contains(errs.String(), "disk full") {
		t.Errorf("code %d: %s", code, &errs)
	}
}
