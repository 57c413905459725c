package sqlite

import (
	"context"
	"embed"
	"fmt"

	"github.com/tenetdev/tenet/internal/migrate"
)

//go:embed migrations/*.sql
var embedded embed.FS

// bookkeeping makes the list of applied versions.
const bookkeeping = `CREATE TABLE IF NOT EXISTS tenet_migration (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;
`

// record keeps the list of applied versions, with microseconds since 1970.
var record = migrate.Record{
	Up:   "INSERT INTO tenet_migration (version, name, applied_at) VALUES ({{version}}, '{{name}}', CAST(unixepoch('subsec') * 1000000 AS INTEGER));\n",
	Down: "DELETE FROM tenet_migration WHERE version = {{version}};\n",
}

// Migrate takes the tables up to the newest version, or down by one, and returns the steps with their SQL; with dryRun it
// changes nothing and returns the steps that are due. All steps are one transaction, so that any number of processes may
// migrate at once: one does it and the others find nothing left to do. Down drops tables with their jobs.
func (db *DB) Migrate(ctx context.Context, d migrate.Direction, dryRun bool) ([]migrate.Step, error) {
	set, err := migrate.Load(embedded, record)
	if err != nil {
		return nil, err
	}
	var steps []migrate.Step
	plan := func(q querier) error {
		applied, err := applied(q)
		if err == nil {
			steps, err = set.Plan(d, applied, "")
		}
		return err
	}
	if dryRun {
		err := db.jobs.view(ctx, "migrate", plan)
		if err == nil && len(steps) > 0 && d == migrate.Up {
			steps[0].SQL = bookkeeping + "\n" + steps[0].SQL
		}
		return steps, err
	}
	err = db.jobs.write(ctx, "migrate "+string(d), func(q querier) error {
		if err := plan(q); err != nil || len(steps) == 0 {
			return err
		}
		return apply(q, steps)
	})
	return steps, err
}

func apply(q querier, steps []migrate.Step) error {
	if err := q.exec(bookkeeping); err != nil {
		return err
	}
	for _, s := range steps {
		if err := q.exec(s.SQL); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// MigrationStatus lists the versions that this program knows and whether the file has them. It returns an error for a file
// with versions that it does not know.
func (db *DB) MigrationStatus(ctx context.Context) ([]migrate.Status, error) {
	set, err := migrate.Load(embedded, record)
	if err != nil {
		return nil, err
	}
	return viewed(ctx, db.jobs, "migrations", func(q querier) ([]migrate.Status, error) {
		applied, err := applied(q)
		if err != nil {
			return nil, err
		}
		return set.Status(applied)
	})
}

// applied returns the applied versions, or none if the table of versions is missing.
func applied(q querier) ([]migrate.Applied, error) {
	exists := 0
	err := one(q, selection{text: `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'tenet_migration'`, into: []any{&exists}})
	if err != nil || exists == 0 {
		return nil, err
	}
	var x migrate.Applied
	return all(q, selection{text: `SELECT version, applied_at FROM tenet_migration`, into: []any{&x.Version, (*instant)(&x.At)}}, &x)
}
