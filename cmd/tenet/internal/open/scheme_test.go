package open

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

func TestURLsOfStores(t *testing.T) {
	for url, want := range map[string][2]string{
		"memory:": {schemeMemory, ""}, "sqlite:a/b.db": {schemeSQLite, "a/b.db"}, "sqlite:///a.db": {schemeSQLite, "/a.db"},
		"postgres://h/d": {schemePostgres, "//h/d"}, "postgresql://h/d": {schemePostgres, "//h/d"},
	} {
		if at, _, err := (Ref{"store", url, UseWorker}).locate(); err != nil || at.scheme != want[0] || at.path != want[1] {
			t.Errorf("%s: %+v %v", url, at, err)
		}
	}
}

// TestErrorsListTheAcceptedURLs checks that an unsuitable URL is a usage error that lists the accepted URLs.
func TestErrorsListTheAcceptedURLs(t *testing.T) {
	names := []string{"mysql"}
	for _, s := range schemes() {
		names = append(names, s.names...)
	}
	for use := range uses {
		for _, flag := range []string{"flag", ""} {
			for _, name := range names {
				s, _ := schemeOf(name)
				_, _, err := Ref{flag, name + "://user:s3cret@h/x", use}.locate()
				if (err == nil) != (s.forms[use] != "") {
					t.Errorf("%s as a %s: %v", name, use.noun(), err)
				}
				checkRefusal(t, use, err)
			}
			for _, url := range []string{"", "x.db", "sqlite:", "file:", "sqlite:x.db?mode=ro"} {
				_, _, err := Ref{flag, url, use}.locate()
				if err == nil {
					t.Errorf("%q is a %s", url, use.noun())
				}
				checkRefusal(t, use, err)
			}
		}
	}
}

func checkRefusal(t *testing.T, use Use, err error) {
	t.Helper()
	if err == nil {
		return
	}
	f, ok := errors.AsType[*cli.Failure](err)
	if !ok || f.Code != cli.ExitUsage || !strings.Contains(err.Error(), use.Forms()) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a %s: %v", use.noun(), err)
	}
}

func TestHelpListsTheAcceptedURLs(t *testing.T) {
	for use, want := range map[Use]string{
		UseJobs: "sqlite:PATH or postgres://…", UseWorker: "sqlite:PATH, postgres://… or memory:", UseRecords: "sqlite:PATH, postgres://… or nats://…",
		UseLog: "file:PATH, sqlite:PATH, postgres://… or nats://…",
	} {
		if got := use.Forms(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
