package open

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

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
