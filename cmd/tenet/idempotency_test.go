package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/migrate"
)

// TestI4AnOperatorResolvesAnUnknownOutcome: a run that was killed leaves a record that only an operator can resolve.
func TestI4AnOperatorResolvesAnUnknownOutcome(t *testing.T) {
	for as, want := range map[string]int{"completed": 0, "failed": 125, "released": 0} {
		t.Run(as, func(t *testing.T) {
			file := t.TempDir() + "/records.db"
			db, err := sqlite.Open(t.Context(), file, sqlite.Options{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Migrate(t.Context(), migrate.Up, false); err != nil {
				t.Fatal(err)
			}
			_, err = db.Idempotency().Begin(t.Context(), idempotency.BeginRequest{
				ID: idempotency.ID{Key: "k"}, Fingerprint: fingerprintOf([]string{"true"}), Owner: "killed", Lease: time.Microsecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			run := func() (int, string) {
				code, _, errs := runIn(t.Context(), nil, "", "run", "--idempotency-key", "k", "--idempotency-store", "sqlite:"+file, "--", "true")
				return code, errs
			}
			unknown := func(want string) {
				t.Helper()
				code, out, errs := runIn(t.Context(), nil, "", "idempotency", "list", "--state", "unknown", "--store", "sqlite:"+file)
				if code != 0 || !strings.Contains(out, want) {
					t.Errorf("list: %d: %s%s, want …%s…", code, out, errs, want)
				}
			}
			unknown("in_flight (lapsed)")
			if code, errs := run(); code != 125 || !strings.Contains(errs, "outcome_unknown") {
				t.Fatalf("%d: %s", code, errs)
			}
			unknown(" unknown ")
			if code, out, errs := runIn(t.Context(), nil, "", "idempotency", "resolve", "k", "--as", as, "--store", "sqlite:"+file); code != 0 || !strings.Contains(out, as) {
				t.Fatalf("%d: %s%s", code, out, errs)
			}
			unknown("none")
			if code, errs := run(); code != want {
				t.Errorf("%d, want %d: %s", code, want, errs)
			}
		})
	}
}

// TestI4ARefusedChangeIsOnRecordAsRefused: the log says of a change that came too late that it was not made.
func TestI4ARefusedChangeIsOnRecordAsRefused(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	f := recordTarget{audit: "file:" + log}
	r := idempotency.Record{ID: idempotency.ID{Key: "k"}, State: idempotency.Unknown}
	for name, c := range map[string]struct {
		change error
		code   int
	}{"made": {nil, 0}, "fenced": {idempotency.ErrFenced, exitConflict}} {
		err := f.recorded(t.Context(), &app{}, &recordStore{}, r, name, "completed", func() error { return c.change })
		if failed, _ := errors.AsType[*failure](err); (err == nil) != (c.code == 0) || failed != nil && failed.code != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	events := strings.Split(succeed(t, "audit", "query", "--type", "operator_action", "-o", "jsonl", log), "\n")
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
