package sqlite_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenetdev/tenet/adapter/sqlite"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

func TestC2ClassesOfErrorsFromSQLite(t *testing.T) {
	ctx := t.Context()
	class := func(what string, err error, want policy.Class) {
		t.Helper()
		if got := sqlite.Classes().Of(err); err == nil || got != want {
			t.Errorf("%s: %q, want %q: %v", what, got, want, err)
		}
	}
	path := filepath.Join(t.TempDir(), "jobs.db")
	db := openFile(t, path)
	pool, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	conn, err := pool.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	do := func(statements ...string) {
		t.Helper()
		for _, s := range statements {
			if _, err := conn.ExecContext(ctx, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	do(`CREATE TABLE account AS SELECT 1 AS balance`)

	do(`BEGIN`)
	if err := conn.QueryRowContext(ctx, `SELECT balance FROM account`).Scan(new(int)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Jobs().Enqueue(ctx, []job.Insert{number(1)}); err != nil {
		t.Fatal(err)
	}
	_, err = conn.ExecContext(ctx, `UPDATE account SET balance = 2`)
	class("a write after a read of an old state", err, policy.ClassSQLSerialization)
	do(`ROLLBACK`)

	impatient := openWith(t, path, sqlite.Options{BusyTimeout: time.Millisecond})
	do(`BEGIN IMMEDIATE`)
	_, err = impatient.Jobs().Enqueue(ctx, []job.Insert{number(2)})
	class("the store's own error about a busy file", err, policy.ClassSQLSerialization)
	do(`ROLLBACK`)

	rows, err := conn.QueryContext(ctx, `SELECT balance FROM account UNION ALL SELECT balance FROM account`)
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	_, err = conn.ExecContext(ctx, `DROP TABLE account`)
	class("dropping a table that is being read", err, policy.ClassSQLDeadlock)
	if err := rows.Close(); err != nil {
		t.Error(err)
	}

	_, err = conn.ExecContext(ctx, `SELECT`)
	class("a syntax error", err, policy.ClassSQL)
	away, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "missing", "jobs.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	class("a missing folder", away.PingContext(ctx), policy.ClassSQLConnection)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	class("a closed connection", conn.PingContext(ctx), policy.ClassSQLConnection)
	class("an unrelated error", errors.New("no"), "")
	if f := db.Jobs().Classes(); len(f.Names) != 4 {
		t.Errorf("the store's classes: %v", f.Names)
	}
}
