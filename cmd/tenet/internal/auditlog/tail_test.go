//go:build unix

package auditlog_test

import (
	"bufio"
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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/tenetdev/tenet/adapter/nats/natsstore"
	"github.com/tenetdev/tenet/adapter/nats/natstest"
	"github.com/tenetdev/tenet/cmd/tenet/internal/auditlog"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/command"
	"github.com/tenetdev/tenet/cmd/tenet/internal/run"
)

func addCommands(a *cli.App, root *cobra.Command) {
	root.AddCommand(run.Command(a), auditlog.Command(a))
}

// call records a call that succeeds.
func call(t *testing.T, key, log string) {
	t.Helper()
	var printed bytes.Buffer
	p := cli.Program{
		Args:  []string{"run", "--key", key, "--audit", log, "--", "true"},
		Stdin: strings.NewReader(""), Stdout: &printed, Stderr: &printed, AddCommands: addCommands,
	}
	if code := p.Run(t.Context()); code != 0 {
		t.Fatalf("tenet %s: code %d\n%s", strings.Join(p.Args, " "), code, &printed)
	}
}

// tailed is a running tenet audit tail of the calls that succeed.
type tailed struct {
	*testing.T
	lines, warnings *bufio.Scanner
	stop            func()
}

func tailOf(t *testing.T, log string) *tailed {
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	ctx, interrupt := context.WithCancelCause(within)
	out, printed := io.Pipe()
	errs, warned := io.Pipe()
	ended := make(chan int)
	go func() {
		p := cli.Program{
			Args:  []string{"audit", "tail", log, "-n", "1", "--type", "call_succeeded"},
			Stdin: strings.NewReader(""), Stdout: printed, Stderr: warned, AddCommands: addCommands,
		}
		code := p.Run(ctx)
		_ = errors.Join(printed.Close(), warned.Close())
		ended <- code
	}()
	f := &tailed{T: t, lines: bufio.NewScanner(out), warnings: bufio.NewScanner(errs)}
	f.stop = func() {
		interrupt(command.Interrupt{Signal: syscall.SIGINT})
		if code := <-ended; code != 130 || f.lines.Scan() {
			t.Errorf("code %d, then %q", code, f.lines.Text())
		}
	}
	return f
}

func (f *tailed) next(from *bufio.Scanner, want string) {
	f.Helper()
	if !from.Scan() || !strings.Contains(from.Text(), want) {
		f.Fatalf("%q, want %s", from.Text(), want)
	}
}

func TestTailFollowsUntilItIsStopped(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	call(t, "first.Key", "file:"+log)
	f := tailOf(t, log)
	f.next(f.lines, "first.Key")
	call(t, "second.Key", "file:"+log)
	f.next(f.lines, "second.Key")
	f.stop()
}

// TestTailGoesOnAfterTheLogWasRestored from a backup, and does not end while there is no log.
func TestTailGoesOnAfterTheLogWasRestored(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	call(t, "first.Key", "file:"+log)
	backup, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	call(t, "second.Key", "file:"+log)
	f := tailOf(t, log)
	f.next(f.lines, "second.Key")
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	f.next(f.warnings, "no such file")
	if err := os.WriteFile(log, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	f.next(f.warnings, "can be read again")
	f.next(f.warnings, "was replaced")
	call(t, "third.Key", "file:"+log)
	f.next(f.lines, "third.Key")
	f.stop()
}

// TestTailGoesOnAfterAStreamWasReplaced by a shorter one.
func TestTailGoesOnAfterAStreamWasReplaced(t *testing.T) {
	url := natstest.Start(t).ClientURL()
	call(t, "first.Key", url)
	call(t, "second.Key", url)
	f := tailOf(t, url)
	f.next(f.lines, "second.Key")
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), natsstore.AuditStream); err != nil {
		t.Fatal(err)
	}
	call(t, "third.Key", url)
	for f.warnings.Scan() && !strings.Contains(f.warnings.Text(), "was replaced") { // after those of a log that cannot be read
	}
	f.next(f.lines, "third.Key")
	f.stop()
}
