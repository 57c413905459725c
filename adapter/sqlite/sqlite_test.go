package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/storetest"
)

func TestMain(m *testing.M) {
	storetest.IdempotencyProcess(openProcess)
	storetest.RedriveProcess(openNamed)
	if path := os.Getenv(victimFile); path != "" {
		victim(path)
	}
	goleak.VerifyTestMain(m)
}

// open opens a file in a new directory.
func open(t testing.TB) *sqlite.DB {
	t.Helper()
	return openFile(t, filepath.Join(t.TempDir(), "jobs.db"))
}

func openFile(t testing.TB, path string) *sqlite.DB {
	t.Helper()
	return openWith(t, path, sqlite.Options{Create: true})
}

func openWith(t testing.TB, path string, o sqlite.Options) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// begin begins a transaction, which is rolled back at the end of the test if the test has not ended it.
func begin(t *testing.T, db *sqlite.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// TestJobs runs in virtual time, except for the cases with real concurrency. The second handle is another connection to the
// same file, like that of another process.
func TestJobs(t *testing.T) {
	t.Parallel()
	paths := map[job.Store]string{}
	storetest.Jobs(t, storetest.JobsOptions{
		Open: func(t *testing.T) job.Store {
			db := open(t)
			paths[db.Jobs()] = db.Path()
			return db.Jobs()
		},
		Second: func(t *testing.T, first job.Store) job.Store { return openFile(t, paths[first]).Jobs() },
		Bubble: synctest.Test,
	})
}
