package main

import (
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/cmd/tenet/internal/run"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/migrate"
)

// TestI4AnOperatorResolvesAnUnknownOutcome: a killed run leaves a record that only an operator can resolve.
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
				ID: idempotency.ID{Key: "k"}, Fingerprint: run.FingerprintOf([]string{"true"}), Owner: "killed", Lease: time.Microsecond,
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
