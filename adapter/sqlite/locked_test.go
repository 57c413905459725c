package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/internal/migrate"
	"github.com/tenetdev/tenet/job"
)

// TestAWaitCutShortByItsContextNamesTheLock: the error of a caller whose context ends before the busy timeout names the
// lock and the context.
func TestAWaitCutShortByItsContextNamesTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	db := openFile(t, path)
	begin(t, openFile(t, path)) // takes the lock
	for name, use := range map[string]func(ctx context.Context) error{
		"enqueue": func(ctx context.Context) error { _, err := db.Jobs().Enqueue(ctx, []job.Insert{number(1)}); return err },
		"migrate": func(ctx context.Context) error { _, err := db.Migrate(ctx, migrate.Up, false); return err },
		"begin":   func(ctx context.Context) error { _, err := db.BeginTx(ctx); return err },
		"audit": func(ctx context.Context) error {
			return db.Audit().Append(ctx, []audit.Entry{{Event: &audit.Event{ID: "e"}, Line: []byte("{}")}})
		},
		"key": func(ctx context.Context) error {
			_, err := db.Idempotency().Begin(ctx, idempotency.BeginRequest{ID: idempotency.ID{Key: "k"}, Owner: "o", Lease: time.Second})
			return err
		},
		"open": func(ctx context.Context) error {
			_, err := sqlite.Open(ctx, path, sqlite.Options{Create: true})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // opening and migrating take some of it before they wait
		err := use(ctx)
		if !errors.Is(err, sqlite.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), "sqlite:") != 1 {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// TestAnExclusivelyLockedFileIsLocked locks a file so that not even its header can be read.
func TestAnExclusivelyLockedFileIsLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	if err := openFile(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	other, err := sql.Open("sqlite", "file:"+path+"?_pragma=locking_mode(exclusive)")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.ExecContext(t.Context(), `CREATE TABLE mine (n)`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // opening and migrating take some of it before they wait
	defer cancel()
	if _, err := sqlite.Open(ctx, path, sqlite.Options{}); !errors.Is(err, sqlite.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hurried: %v", err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{BusyTimeout: 30 * time.Millisecond}); !errors.Is(err, sqlite.ErrBusy) {
		t.Errorf("patient: %v", err)
	}
}
