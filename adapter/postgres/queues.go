package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
)

// Queues implements job.Admin.
func (j *Jobs) Queues(ctx context.Context) ([]job.QueueState, error) {
	var list []job.QueueState
	b := &pgx.Batch{}
	var q job.QueueState
	queued := b.Queue(j.db.sql(`SELECT queue, paused, reason, until, actor FROM {{schema}}.queue ORDER BY queue`))
	gather(queued, []any{&q.Queue, &q.Paused, &q.Reason, (*instant)(&q.Until), &q.Actor}, &q, &list)
	if err := j.db.run(ctx, "queues", b); err != nil {
		return nil, err
	}
	return list, nil
}

// SetQueue implements job.Admin.
func (j *Jobs) SetQueue(ctx context.Context, q job.QueueState) error {
	if err := q.Check(); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(j.db.sql(`
INSERT INTO {{schema}}.queue (queue, paused, reason, until, actor) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (queue) DO UPDATE SET paused = excluded.paused, reason = excluded.reason, until = excluded.until, actor = excluded.actor`),
		q.Queue, q.Paused, job.CleanText(q.Reason), stamp(q.Until), job.CleanText(q.Actor))
	if err := j.db.run(ctx, "set queue", b); err != nil {
		return err
	}
	if !q.Paused {
		j.bell.wake()
	}
	return nil
}

// inTable inserts a table's name, the state of its jobs, and what is known of their places into a statement.
func inTable(text, table string) string {
	state, gated, departed := "'"+table+"'", ", places, NULL::text AS line", ""
	switch table {
	case "done":
		state, gated = "state", ""
	case "waiting":
		gated = ", places, line"
		departed = departedSQL("freed", "(SELECT array_agg(line) FROM gone WHERE line IS NOT NULL)")
	case "ready":
		departed = departedSQL("dropped", "NULL::text[]")
	case "scheduled":
		departed = departedSQL("freed", "NULL::text[]")
	}
	return strings.NewReplacer("{{table}}", table, "{{was}}", state, "{{gated}}", gated, "{{departed}}", departed).Replace(text)
}

// departedSQL notes what the jobs of "gone" give up: their places, and of waiting jobs the lines.
func departedSQL(column, lines string) string {
	return `, departed AS (
    INSERT INTO {{schema}}.gate_event (` + column + `, departed) SELECT * FROM (SELECT
        (SELECT array_agg(p) FROM gone, unnest(gone.places) p) AS given_up, ` + lines + ` AS departed) e WHERE given_up IS NOT NULL OR departed IS NOT NULL
)`
}
