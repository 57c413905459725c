package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
)

func TestJ9EndedWindowsAreRemovedWithoutRetention(t *testing.T) {
	ctx := context.Background()
	db, schema := open(t)
	in := insert()
	in.UniqueKey, in.UniqueFor = "k", time.Microsecond
	enqueue(t, db.Jobs(), in)
	if _, err := db.Jobs().Maintain(ctx, job.Maintenance{Limit: 10}); err != nil {
		t.Fatal(err)
	}
	conn := connect(t)
	left := -1
	table := pgx.Identifier{schema, "unique_key"}.Sanitize()
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM "+table).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d keys remain, %v", left, err)
	}
}
