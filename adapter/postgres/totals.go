package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
)

// totalColumns are the sums of total and total_change, in the order of job.States.
const totalColumns = `sum(scheduled)::bigint, sum(ready)::bigint, sum(running)::bigint, sum(completed)::bigint, sum(dead)::bigint, sum(cancelled)::bigint`

const totalsSQL = `
SELECT queue, ` + totalColumns + ` FROM (SELECT * FROM {{schema}}.total UNION ALL SELECT * FROM {{schema}}.total_change) t
GROUP BY queue HAVING sum(scheduled + ready + running + completed + dead + cancelled) > 0`

// oldestSQL hops through the index of claims, from the first job of each queue, type and priority to the next.
const oldestSQL = `
WITH RECURSIVE head AS (
    (SELECT r.queue, r.type, r.priority, r.run_at FROM {{schema}}.ready r ORDER BY r.queue, r.type, r.priority, r.run_at LIMIT 1)
    UNION ALL
    SELECT n.queue, n.type, n.priority, n.run_at FROM head h, LATERAL (
        SELECT r.queue, r.type, r.priority, r.run_at FROM {{schema}}.ready r WHERE (r.queue, r.type, r.priority) > (h.queue, h.type, h.priority)
        ORDER BY r.queue, r.type, r.priority, r.run_at LIMIT 1) n
)
SELECT queue, (extract(epoch FROM statement_timestamp() - min(run_at)) * 1000000)::bigint FROM head GROUP BY queue`

// addUpSQL moves what has been counted since to the totals. One maintenance at a time does it; others go on without.
const addUpSQL = `
WITH gone AS (
    DELETE FROM {{schema}}.total_change WHERE (SELECT pg_try_advisory_xact_lock($1)) RETURNING *
)
INSERT INTO {{schema}}.total AS t (queue, scheduled, ready, running, completed, dead, cancelled)
SELECT queue, ` + totalColumns + ` FROM gone GROUP BY queue
ON CONFLICT (queue) DO UPDATE SET scheduled = t.scheduled + excluded.scheduled, ready = t.ready + excluded.ready, running = t.running + excluded.running,
    completed = t.completed + excluded.completed, dead = t.dead + excluded.dead, cancelled = t.cancelled + excluded.cancelled`

// Stats implements job.Admin. It reads the kept counts, a row or a few for each queue, whatever the number of jobs.
func (j *Jobs) Stats(ctx context.Context) (map[string]job.QueueStats, error) {
	stats := map[string]job.QueueStats{}
	b := steadyBatch()
	b.Queue(j.db.sql(totalsSQL)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var queue string
			var q job.QueueStats
			if err := rows.Scan(&queue, &q.Scheduled, &q.Ready, &q.Running, &q.Completed, &q.Dead, &q.Cancelled); err != nil {
				return err
			}
			stats[queue] = q
		}
		return rows.Err()
	})
	b.Queue(j.db.sql(oldestSQL)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var queue string
			var oldest int64
			if err := rows.Scan(&queue, &oldest); err != nil {
				return err
			}
			if q, ok := stats[queue]; ok && q.Ready > 0 {
				q.OldestReady = max(time.Duration(oldest)*time.Microsecond, 0)
				stats[queue] = q
			}
		}
		return rows.Err()
	})
	if err := j.db.run(ctx, "stats", b); err != nil {
		return nil, err
	}
	return stats, nil
}

// forgetEmpty removes the totals of queues without jobs.
func (j *Jobs) forgetEmpty(ctx context.Context) error {
	b := &pgx.Batch{}
	b.Queue(j.db.sql(`DELETE FROM {{schema}}.total WHERE scheduled = 0 AND ready = 0 AND running = 0 AND completed = 0 AND dead = 0 AND cancelled = 0`))
	return j.db.run(ctx, "remove empty totals", b)
}
