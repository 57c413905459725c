package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/adapter/postgres"
	"github.com/tenetdev/tenet/policy"
)

func TestC2ClassesOfErrorsFromPostgreSQL(t *testing.T) {
	ctx := context.Background()
	a, b := connect(t), connect(t)
	do := func(conn *pgx.Conn, statements ...string) {
		t.Helper()
		for _, s := range statements {
			if _, err := conn.Exec(ctx, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	class := func(what string, err error, want policy.Class) {
		t.Helper()
		if got := postgres.Classes().Of(err); err == nil || got != want {
			t.Errorf("%s: %q, want %q: %v", what, got, want, err)
		}
	}

	do(a, `CREATE TABLE account AS SELECT 1 AS balance`)
	t.Cleanup(func() { do(connect(t), `DROP TABLE account`) })
	do(a, `BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT balance FROM account`)
	do(b, `UPDATE account SET balance = 2`)
	_, err := a.Exec(ctx, `UPDATE account SET balance = 3`)
	class("an update of a changed row", err, policy.ClassSQLSerialization)
	do(a, `ROLLBACK`)

	do(a, `BEGIN`, `SET LOCAL deadlock_timeout = '10ms'`, `SELECT pg_advisory_xact_lock(1)`)
	do(b, `BEGIN`, `SET LOCAL deadlock_timeout = '1h'`, `SELECT pg_advisory_xact_lock(2)`)
	blocked := make(chan error, 1)
	go func() {
		_, err := b.Exec(ctx, `SELECT pg_advisory_xact_lock(1)`)
		blocked <- err
	}()
	for waiting := false; !waiting; {
		row := a.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $1)`, b.PgConn().PID())
		if err := row.Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	_, err = a.Exec(ctx, `SELECT pg_advisory_xact_lock(2)`)
	class("a deadlock", err, policy.ClassSQLDeadlock)
	do(a, `ROLLBACK`)
	if err := <-blocked; err != nil {
		t.Error(err)
	}

	_, err = a.Exec(ctx, `SELECT 1 / 0`)
	class("a division by zero", err, policy.ClassSQL)
	do(a, fmt.Sprintf(`SELECT pg_terminate_backend(%d, 10000)`, b.PgConn().PID()))
	_, err = b.Exec(ctx, `SELECT 1`)
	class("a session that was ended", err, policy.ClassSQLConnection)
	_, err = b.Exec(ctx, `SELECT 1`)
	class("a closed connection", err, policy.ClassSQLConnection)
	_, err = pgx.Connect(ctx, "postgres://postgres@127.0.0.1:1/postgres?sslmode=disable")
	class("no server", err, policy.ClassSQLConnection)
	class("an unrelated error", errors.New("no"), "")

	db := openAt(t, url, "nothing here")
	_, err = db.Jobs().Enqueue(ctx, inserts(1))
	class("the store's own error", err, policy.ClassSQL)
	if f := db.Jobs().Classes(); len(f.Names) != 4 {
		t.Errorf("the store's classes: %v", f.Names)
	}
}
