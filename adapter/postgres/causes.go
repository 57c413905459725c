package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

var _ job.Causer = (*Jobs)(nil)

const (
	causesSQL = `
SELECT cause, queue, type, sum(count)::bigint, min(first), max(last) FROM (
    SELECT cause, queue, type, count, first, last FROM {{schema}}.cause_total
    UNION ALL SELECT cause, queue, type, count, at, at FROM {{schema}}.cause_change) t
GROUP BY cause, queue, type HAVING sum(count) > 0`

	// newestOfSQL returns the newest $4 jobs of groups.
	newestOfSQL = `
SELECT g.ord, d.id, d.last_error, d.reason, d.cause FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS g (cause, queue, type, ord), LATERAL (
    SELECT id, last_error, reason, cause FROM {{schema}}.done WHERE state = 'dead' AND cause = g.cause AND queue = g.queue AND dead_type = g.type
    ORDER BY cause DESC, queue DESC, dead_type DESC, id DESC LIMIT $4) d
ORDER BY g.ord, d.id DESC`

	// addCausesSQL does for causes what addUpSQL does for totals.
	addCausesSQL = `
WITH gone AS (
    DELETE FROM {{schema}}.cause_change WHERE (SELECT pg_try_advisory_xact_lock($1)) RETURNING *
)
INSERT INTO {{schema}}.cause_total AS t (cause, queue, type, count, first, last)
SELECT cause, queue, type, sum(count), min(at), max(at) FROM gone GROUP BY cause, queue, type
ON CONFLICT (cause, queue, type) DO UPDATE SET count = t.count + excluded.count, first = least(t.first, excluded.first), last = greatest(t.last, excluded.last)`
	forgetCausesSQL = `DELETE FROM {{schema}}.cause_total WHERE count <= 0 AND (SELECT pg_try_advisory_xact_lock($1))`
)

// Causes implements job.Causer. It reads a row or a few for each group, whatever the number of jobs.
func (j *Jobs) Causes(ctx context.Context, q job.CauseQuery) (job.Causes, error) {
	if err := q.Filter.Check(); err != nil {
		return job.Causes{}, fmt.Errorf("postgres: %w", err)
	}
	if !q.Kept() {
		return q.Over(ctx, j)
	}
	var groups []job.CauseGroup
	b := &pgx.Batch{}
	var g job.CauseGroup
	each(b.Queue(j.db.sql(causesSQL)), []any{&g.Cause, &g.Queue, &g.Type, &g.Count, (*instant)(&g.FirstSeen), (*instant)(&g.LastSeen)}, func() error {
		if q.Selects(g) {
			groups = append(groups, g)
		}
		return nil
	})
	if err := j.db.run(ctx, "causes", b); err != nil {
		return job.Causes{}, err
	}
	groups = job.SortCauses(groups, q.Groups())
	newest, err := j.newestOf(ctx, groups)
	for i := range groups {
		groups[i].Describe(newest[i])
	}
	return job.Causes{Groups: groups}, err
}

// newestOf reads the newest jobs of groups.
func (j *Jobs) newestOf(ctx context.Context, groups []job.CauseGroup) ([][]*job.Record, error) {
	newest := make([][]*job.Record, len(groups))
	var names, queues, types []string
	for _, g := range groups {
		names, queues, types = append(names, g.Cause), append(queues, g.Queue), append(types, g.Type)
	}
	b := steadyBatch()
	var at int
	var id pgtype.UUID
	var text, reason, name pgtype.Text
	each(b.Queue(j.db.sql(newestOfSQL), names, queues, types, job.CauseSamples), []any{&at, &id, &text, &reason, &name}, func() error {
		newest[at-1] = append(newest[at-1], &job.Record{ID: id.String(), LastError: text.String, Reason: policy.Reason(reason.String), Cause: name.String})
		return nil
	})
	return newest, j.db.run(ctx, "causes", b)
}
