package records

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
	"github.com/tenetdev/tenet/cmd/tenet/internal/open"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/operation"
)

// TestI4ARefusedChangeIsRecordedAsRefused: the log records that a late change was refused.
func TestI4ARefusedChangeIsRecordedAsRefused(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	f := recordTarget{audit: "file:" + log}
	r := idempotency.Record{ID: idempotency.ID{Key: "k"}, State: idempotency.Unknown}
	for name, c := range map[string]struct {
		change error
		code   int
	}{"made": {nil, 0}, "fenced": {idempotency.ErrFenced, cli.ExitConflict}} {
		err := f.recorded(t.Context(), &cli.App{}, &open.RecordStore{}, change{operation.OnRecord(name, r), func() error { return c.change }})
		if failed, _ := errors.AsType[*cli.Failure](err); (err == nil) != (c.code == 0) || failed != nil && failed.Code != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	events := strings.Split(string(text), "\n")
	of := func(parts ...string) (n int) {
		for _, e := range events {
			found := true
			for _, p := range parts {
				found = found && strings.Contains(e, p)
			}
			if found {
				n++
			}
		}
		return n
	}
	if made, fenced, refused := of(`"action":"made"`), of(`"action":"fenced"`), of(`"action":"fenced"`, `"detail":"refused: `); made != 1 || fenced != 2 || refused != 1 {
		t.Errorf("%d made, %d fenced, %d of these refused:\n%s", made, fenced, refused, strings.Join(events, "\n"))
	}
}
