package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
)

// Queues implements job.Admin.
func (j *Jobs) Queues(ctx context.Context) ([]job.QueueState, error) {
	var list []job.QueueState
	b := &pgx.Batch{}
	b.Queue(j.db.sql(`SELECT queue, paused, reason, until FROM {{schema}}.queue ORDER BY queue`)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var q job.QueueState
			var until pgtype.Timestamptz
			if err := rows.Scan(&q.Queue, &q.Paused, &q.Reason, &until); err != nil {
				return err
			}
			q.Until = utc(until)
			list = append(list, q)
		}
		return rows.Err()
	})
	if err := j.db.run(ctx, "queues", b); err != nil {
		return nil, err
	}
	return list, nil
}

// SetQueue implements job.Admin.
func (j *Jobs) SetQueue(ctx context.Context, q job.QueueState) error {
	b := &pgx.Batch{}
	b.Queue(j.db.sql(`
INSERT INTO {{schema}}.queue (queue, paused, reason, until) VALUES ($1, $2, $3, $4)
ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused, reason = excluded.reason, until = excluded.until`),
		q.Queue, q.Paused, job.CleanText(q.Reason), stamp(q.Until))
	if err := j.db.run(ctx, "set queue", b); err != nil {
		return err
	}
	if !q.Paused {
		j.bell.wake()
	}
	return nil
}

// inTable inserts a table's name and the state of its jobs into a statement.
func inTable(text, table string) string {
	state := "'" + table + "'"
	if table == "done" {
		state = "state"
	}
	return strings.NewReplacer("{{table}}", table, "{{was}}", state).Replace(text)
}
