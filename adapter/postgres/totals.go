package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
)

// totalColumns are the sums of total and total_change, in the order of job.States, and those of job.Activity.
const totalColumns = `coalesce(sum(waiting), 0)::bigint, sum(scheduled)::bigint, sum(ready)::bigint, sum(running)::bigint, sum(completed)::bigint, sum(dead)::bigint, sum(cancelled)::bigint,
    coalesce(sum(enqueued), 0)::bigint, coalesce(sum(all_completed), 0)::bigint, coalesce(sum(all_dead), 0)::bigint,
    coalesce(sum(all_cancelled), 0)::bigint, coalesce(sum(attempts), 0)::bigint, coalesce(sum(retries), 0)::bigint`

const totalsSQL = `
SELECT queue, ` + totalColumns + ` FROM (SELECT * FROM {{schema}}.total UNION ALL SELECT * FROM {{schema}}.total_change) t
GROUP BY queue HAVING sum(coalesce(waiting, 0) + scheduled + ready + running + completed + dead + cancelled) > 0`

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
INSERT INTO {{schema}}.total AS t (queue, waiting, scheduled, ready, running, completed, dead, cancelled, enqueued, all_completed, all_dead, all_cancelled,
    attempts, retries)
SELECT queue, ` + totalColumns + ` FROM gone GROUP BY queue
ON CONFLICT (queue) DO UPDATE SET waiting = t.waiting + excluded.waiting, scheduled = t.scheduled + excluded.scheduled, ready = t.ready + excluded.ready, running = t.running + excluded.running,
    completed = t.completed + excluded.completed, dead = t.dead + excluded.dead, cancelled = t.cancelled + excluded.cancelled,
    enqueued = t.enqueued + excluded.enqueued, all_completed = t.all_completed + excluded.all_completed, all_dead = t.all_dead + excluded.all_dead,
    all_cancelled = t.all_cancelled + excluded.all_cancelled, attempts = t.attempts + excluded.attempts, retries = t.retries + excluded.retries`

// Stats implements job.Admin. It reads the kept counts, a row or a few for each queue, whatever the number of jobs.
func (j *Jobs) Stats(ctx context.Context) (map[string]job.QueueStats, error) {
	j.catchUp(ctx)
	stats := map[string]job.QueueStats{}
	b := steadyBatch()
	var queue string
	var q job.QueueStats
	a := &q.Activity
	each(b.Queue(j.db.sql(totalsSQL)), []any{
		&queue, &q.Waiting, &q.Scheduled, &q.Ready, &q.Running, &q.Completed, &q.Dead, &q.Cancelled,
		&a.Enqueued, &a.Completed, &a.Dead, &a.Cancelled, &a.Attempts, &a.Retries,
	}, func() error {
		stats[queue] = q
		return nil
	})
	var oldest int64
	each(b.Queue(j.db.sql(oldestSQL)), []any{&queue, &oldest}, func() error {
		if q, ok := stats[queue]; ok && q.Ready > 0 {
			q.OldestReady = max(time.Duration(oldest)*time.Microsecond, 0)
			stats[queue] = q
		}
		return nil
	})
	if err := j.db.run(ctx, "stats", b); err != nil {
		return nil, err
	}
	return stats, nil
}

// forgetEmptySQL leaves out queues whose totals may not count all their jobs yet.
const forgetEmptySQL = `
DELETE FROM {{schema}}.total t
WHERE waiting = 0 AND scheduled = 0 AND ready = 0 AND running = 0 AND completed = 0 AND dead = 0 AND cancelled = 0
    AND NOT EXISTS (SELECT FROM {{schema}}.total_change c WHERE c.queue = t.queue)`

// forgetEmpty removes the totals of queues without jobs.
func (j *Jobs) forgetEmpty(ctx context.Context) error {
	b := &pgx.Batch{}
	b.Queue(j.db.sql(forgetEmptySQL))
	return j.db.run(ctx, "remove empty totals", b)
}

// lastSQL reads the newest of both states from the ends of their indexes.
const lastSQL = `
(SELECT queue, state, run_at, finished_at FROM {{schema}}.done WHERE state = 'completed' AND finished_at > $1 ORDER BY finished_at DESC LIMIT $2)
UNION ALL
(SELECT queue, state, run_at, finished_at FROM {{schema}}.done WHERE state = 'dead' AND state <> 'completed' AND finished_at > $1 ORDER BY finished_at DESC LIMIT $2)
ORDER BY finished_at DESC LIMIT $2`

// Finished implements job.Finisher.
func (j *Jobs) Finished(ctx context.Context, after time.Time, limit int) ([]job.Finish, error) {
	var list []job.Finish
	b := steadyBatch()
	var f job.Finish
	gather(b.Queue(j.db.sql(lastSQL), after, max(limit, 0)), []any{&f.Queue, &f.State, (*instant)(&f.Due), (*instant)(&f.Finished)}, &f, &list)
	err := j.db.run(ctx, "finished", b)
	return list, err
}
