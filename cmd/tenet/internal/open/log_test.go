package open

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// fullSink refuses the first append.
type fullSink struct {
	audit.MemorySink
	refused bool
}

func (s *fullSink) Append(ctx context.Context, entries []audit.Entry) error {
	if s.refused {
		return s.MemorySink.Append(ctx, entries)
	}
	s.refused = true
	return errors.New("write audit.jsonl: no space left on device")
}

// deadSink refuses every append with an error.
type deadSink struct {
	audit.MemorySink
	err error
}

func (s *deadSink) Append(context.Context, []audit.Entry) error { return s.err }

// TestA2ACommandDoesNotWaitForAFullDisk at its end, as it does for a database that may come back.
func TestA2ACommandDoesNotWaitForAFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		most time.Duration
	}{
		"a full disk": {&fs.PathError{Op: "write", Path: "audit.jsonl", Err: syscall.ENOSPC}, fullTime},
		"an outage":   {errors.New("connection refused"), CloseTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &cli.App{Program: cli.Program{Stderr: io.Discard}, LogFormat: cli.FormText, LogLevel: "info"}
			sink := &deadSink{err: c.err}
			log, closeLog, err := LogOn(t.Context(), a, sink, sink.Close)
			if err != nil {
				t.Fatal(err)
			}
			if err := log.OperatorAction(t.Context(), audit.Operation{Action: "pause", Actor: "me"}); !errors.Is(err, audit.ErrTimeout) {
				t.Error(err)
			}
			begun := time.Now()
			if err := closeLog(); !errors.Is(err, c.err) || time.Since(begun) != c.most {
				t.Errorf("%s: %v, after %v", name, err, time.Since(begun))
			} else if strings.Contains(err.Error(), "context deadline exceeded") {
				t.Errorf("%s: nothing says what took too long: %v", name, err)
			}
		})
	}
}

// TestA2AFailingAuditLogIsLogged: work stops while its decisions cannot be recorded, so the operator must be told why.
func TestA2AFailingAuditLogIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		a := &cli.App{Program: cli.Program{Stderr: &stderr}, LogFormat: cli.FormText, LogLevel: "info"}
		sink := &fullSink{}
		log, closeLog, err := LogOn(t.Context(), a, sink, sink.Close)
		if err != nil {
			t.Fatal(err)
		}
		err = log.OperatorAction(t.Context(), audit.Operation{Action: "pause", Actor: "me"})
		if err := errors.Join(err, closeLog()); err != nil {
			t.Error(err)
		}
		if lines := stderr.String(); strings.Count(lines, "level=WARN") != 1 || !strings.Contains(lines, "write audit.jsonl: no space left on device") {
			t.Errorf("stderr: %s", lines)
		}
	})
}
