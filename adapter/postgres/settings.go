package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
)

const (
	versionSQL  = `(SELECT coalesce(max(version), 0) FROM {{schema}}.setting)`
	settingsSQL = `
SELECT kind, name, value, by, at, previous, previous_at FROM {{schema}}.setting WHERE ` + versionSQL + ` <> $1 ORDER BY kind COLLATE "C", name COLLATE "C"`
	settingSQL = `
INSERT INTO {{schema}}.setting AS s (kind, name, value, by, at, version)
SELECT $1, $2, $3, $4, statement_timestamp(), $5::bigint + 1 WHERE ` + versionSQL + ` = $5
ON CONFLICT (kind, name) DO UPDATE SET previous = s.value, previous_at = s.at, value = excluded.value, by = excluded.by, at = excluded.at, version = excluded.version`
)

// Settings implements job.SettingStore.
func (j *Jobs) Settings(ctx context.Context, known int64) (list []job.Setting, version int64, err error) {
	b := &pgx.Batch{}
	// The version first: a change between the two statements is then read again, and not missed.
	b.Queue(j.db.sql(`SELECT ` + versionSQL)).QueryRow(func(row pgx.Row) error { return row.Scan(&version) })
	var x job.Setting
	var value, previous pgtype.Text
	into := []any{&x.Kind, &x.Name, &value, &x.By, (*instant)(&x.At), &previous, (*instant)(&x.PreviousAt)}
	each(b.Queue(j.db.sql(settingsSQL), known), into, func() error {
		x.Value, x.Previous = rawOf(value), rawOf(previous)
		list = append(list, x)
		return nil
	})
	if err := j.db.run(ctx, "settings", b); err != nil {
		return nil, 0, err
	}
	if version == known {
		list = nil
	}
	return list, version, nil
}

func rawOf(t pgtype.Text) json.RawMessage {
	if !t.Valid {
		return nil
	}
	return json.RawMessage(t.String)
}

// PutSetting implements job.SettingStore. Changes are made one after the other.
func (j *Jobs) PutSetting(ctx context.Context, x job.Setting, version int64) error {
	b := &pgx.Batch{}
	b.Queue(`SELECT pg_advisory_xact_lock($1)`, j.db.lockKey("settings"))
	var changed int64
	value := pgtype.Text{String: string(x.Value), Valid: x.Value != nil}
	b.Queue(j.db.sql(settingSQL), string(x.Kind), x.Name, value, x.By, version).Exec(func(tag pgconn.CommandTag) error {
		changed = tag.RowsAffected()
		return nil
	})
	if err := j.db.run(ctx, "put setting", b); err != nil {
		return err
	}
	if changed == 0 {
		return fmt.Errorf("postgres: put setting: %w: the settings have changed", job.ErrConflict)
	}
	return nil
}
