package postgres

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/internal/migrate"
)

// Directions of Migrate.
const (
	Up   = migrate.Up   // to the newest version
	Down = migrate.Down // back by one version, with the jobs in its tables
)

// MigrationStep is one version's change, with its SQL.
type MigrationStep = migrate.Step

// MigrationStatus says whether a version is applied.
type MigrationStatus = migrate.Status

//go:embed migrations/*.sql
var embedded embed.FS

// bookkeeping creates the schema and the list of applied versions. It creates only a missing schema, since that needs a
// privilege that the owner of an existing one may lack.
const bookkeeping = `DO $$ BEGIN
    IF to_regnamespace('{{name}}') IS NULL THEN CREATE SCHEMA {{schema}}; END IF;
END $$;
CREATE TABLE IF NOT EXISTS {{schema}}.migration (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL
);
`

// record keeps the list of applied versions.
var record = migrate.Record{
	Up:   "INSERT INTO {{schema}}.migration (version, name, applied_at) VALUES ({{version}}, '{{name}}', statement_timestamp());\n",
	Down: "DELETE FROM {{schema}}.migration WHERE version = {{version}};\n",
}

// Migrate takes the schema up to the newest version, or down by one, and returns the steps with their SQL; with dryRun it
// changes nothing and returns the steps that are due. All steps are one transaction under a lock, so that any number of
// processes may migrate at once: one does it and the others find nothing left to do. Down drops tables with their jobs.
func (db *DB) Migrate(ctx context.Context, d migrate.Direction, dryRun bool) ([]MigrationStep, error) {
	set, err := migrate.Load(embedded, record)
	if err != nil {
		return nil, err
	}
	if dryRun {
		applied, err := db.applied(ctx, db.pool)
		if err != nil {
			return nil, err
		}
		steps, err := set.Plan(d, applied, db.schema)
		if err == nil && len(steps) > 0 && d == migrate.Up {
			steps[0].SQL = db.bookkeeping() + "\n" + steps[0].SQL
		}
		return steps, err
	}
	var steps []migrate.Step
	err = pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		steps, err = db.migrate(ctx, tx, set, d)
		return err
	})
	if err != nil {
		return nil, kind.Wrap("migrate "+string(d), err)
	}
	return steps, nil
}

func (db *DB) migrate(ctx context.Context, tx pgx.Tx, set *migrate.Set, d migrate.Direction) ([]migrate.Step, error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, db.lockKey("migrate")); err != nil {
		return nil, err
	}
	if d == migrate.Up {
		if _, err := tx.Exec(ctx, db.bookkeeping(), pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, err
		}
	}
	applied, err := db.applied(ctx, tx)
	if err != nil {
		return nil, err
	}
	steps, err := set.Plan(d, applied, db.schema)
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		if _, err := tx.Exec(ctx, s.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
	}
	return steps, nil
}

// MigrationStatus lists the versions that this program knows and whether the schema has them. It returns an error for a schema
// with versions that it does not know.
func (db *DB) MigrationStatus(ctx context.Context) ([]MigrationStatus, error) {
	set, err := migrate.Load(embedded, record)
	if err != nil {
		return nil, err
	}
	applied, err := db.applied(ctx, db.pool)
	if err != nil {
		return nil, err
	}
	return set.Status(applied)
}

func (db *DB) bookkeeping() string {
	quoted := strings.ReplaceAll(db.schema, "'", "''") // to_regnamespace takes a quoted name, here inside a literal
	return db.sql(strings.ReplaceAll(bookkeeping, "{{name}}", quoted))
}

// lockKey is the advisory lock of the schema for a purpose.
func (db *DB) lockKey(purpose string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("tenet " + purpose + " " + db.name))
	return int64(h.Sum64())
}

// applied returns the applied versions, or none if the table of versions is missing.
func (db *DB) applied(ctx context.Context, q interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) ([]migrate.Applied, error) {
	rows, _ := q.Query(ctx, `SELECT to_regclass($1) IS NOT NULL`, db.schema+".migration")
	exists, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	if err != nil || !exists {
		return nil, db.wrap("migrations", err)
	}
	rows, _ = q.Query(ctx, db.sql(`SELECT version, applied_at FROM {{schema}}.migration`))
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[migrate.Applied])
	return list, db.wrap("migrations", err)
}
