package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
)

// Announce implements job.Registry.
func (j *Jobs) Announce(ctx context.Context, w job.WorkerInfo, ttl time.Duration) error {
	b := &pgx.Batch{}
	if ttl <= 0 {
		b.Queue(j.db.sql(`DELETE FROM {{schema}}.worker WHERE name = $1`), w.Name)
		return j.db.run(ctx, "withdraw", b)
	}
	if err := job.CheckLease(ttl); err != nil {
		return err
	}
	b.Queue(j.db.sql(`
INSERT INTO {{schema}}.worker (name, until, queues, types)
VALUES ($1, statement_timestamp() + $2::bigint * interval '1 microsecond', coalesce($3::text[], '{}'), coalesce($4::text[], '{}'))
ON CONFLICT (name) DO UPDATE SET until = excluded.until, queues = excluded.queues, types = excluded.types`), w.Name, ttl.Microseconds(), w.Queues, w.Types)
	// The transaction locks its own row and waits for no other, so workers that remove the same rows cannot deadlock.
	b.Queue(j.db.sql(`
DELETE FROM {{schema}}.worker WHERE name IN (SELECT name FROM {{schema}}.worker WHERE until <= statement_timestamp() FOR UPDATE SKIP LOCKED)`))
	return j.db.run(ctx, "announce", b)
}

// Workers implements job.Registry.
func (j *Jobs) Workers(ctx context.Context) ([]job.WorkerInfo, error) {
	var list []job.WorkerInfo
	b := &pgx.Batch{}
	collect(b.Queue(j.db.sql(`SELECT name, queues, types FROM {{schema}}.worker WHERE until > statement_timestamp() ORDER BY name COLLATE "C"`)),
		&list, pgx.RowToStructByPos[job.WorkerInfo])
	if err := j.db.run(ctx, "workers", b); err != nil {
		return nil, err
	}
	return list, nil
}
