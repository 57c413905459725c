package open

import (
	"errors"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

func TestStoreURLs(t *testing.T) {
	for url, want := range map[string][2]string{
		"memory:": {StoreMemory, "memory:"}, "sqlite:a/b.db": {storeSQLite, "a/b.db"}, "sqlite:///a.db": {storeSQLite, "/a.db"},
		"postgres://h/d": {StorePostgres, "postgres://h/d"}, "postgresql://h/d": {StorePostgres, "postgresql://h/d"},
	} {
		if kind, path, err := ParseStore(url); err != nil || kind != want[0] || path != want[1] {
			t.Errorf("%s: %q %q %v", url, kind, path, err)
		}
	}
	for _, url := range []string{"", "jobs.db", "sqlite:", "redis://h", "mysql://h"} {
		_, _, err := ParseStore(url)
		if f, ok := errors.AsType[*cli.Failure](err); !ok || f.Code != cli.ExitUsage {
			t.Errorf("%s: %v", url, err)
		}
	}
}
