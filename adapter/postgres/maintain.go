package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

var promoteSQL = `
WITH due AS (
    DELETE FROM {{schema}}.scheduled WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {{schema}}.scheduled WHERE run_at > $2 AND run_at <= statement_timestamp() ORDER BY run_at LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING *, ` + dueStateSQL("scheduled") + ` AS state
), moved AS (
    INSERT INTO {{schema}}.ready (` + waitingColumns + `) SELECT ` + waitingColumns + ` FROM due WHERE state = 'ready'
), held_back AS (
    INSERT INTO {{schema}}.waiting (` + waitingColumns + `, waits_for) SELECT ` + waitingColumns + `, '` + atGate + `' FROM due WHERE state = 'waiting'
), gate AS (
    INSERT INTO {{schema}}.gate_event (arrived) SELECT array_agg(id) FROM due WHERE state = 'waiting' HAVING count(*) > 0
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, scheduled, waiting, ready)
    SELECT queue, -count(*), count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'ready') FROM due GROUP BY queue
)
SELECT count(*), statement_timestamp(), coalesce(bool_or(state = 'waiting'), false) FROM due`

// reclaimSQL gives moveSQL its rows. $2 is the reason, $3 the error text and $5 the cause of death. It returns a row for each lost lease, or if there
// is none a row with only the time.
var reclaimSQL = `
WITH expired AS (
    SELECT id FROM {{schema}}.running WHERE lease_until > $4 AND lease_until <= statement_timestamp() ORDER BY lease_until LIMIT $1 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM {{schema}}.running r USING expired e, {{schema}}.job b
    WHERE r.id = ANY (ARRAY[e.id]) AND b.id = ANY (ARRAY[e.id])
    RETURNING r.id, r.fence, r.priority, r.cancel_requested, r.queue, r.unique_key, coalesce(r.started_at, r.claimed_at) AS started_at, r.claimed_at, r.worker, r.output, r.needed,
        r.attempts + 1 AS attempts, 0 AS refusals, NULL::timestamptz AS refused_at, NULL::text AS refused_reason,
        CASE WHEN r.cancel_requested IS NOT NULL OR b.max_attempts BETWEEN 1 AND r.attempts + 1 THEN r.run_at ELSE statement_timestamp() END AS run_at,
        statement_timestamp() AS failed_at, $3::text AS last_error, $2::text AS reason,
        CASE WHEN r.cancel_requested IS NOT NULL THEN 'cancelled' WHEN b.max_attempts BETWEEN 1 AND r.attempts + 1 THEN 'dead' ELSE ` + dueStateSQL("r") + ` END AS state,
        r.places AS held, ` + keptSQL + ` AS places,
        r.attempts + 1 AS number, NULL::text AS kind, 0::bigint AS delay, $2::text AS cause, $3::text AS error, NULL::text AS stack,
        r.claimed_at AS started, statement_timestamp() AS finished,
        r.refusals AS held_refusals, r.refused_at AS refused_since, r.refused_reason AS refused_for, b.type, b.meta, $5::text AS death
)` + moveSQL + `
SELECT statement_timestamp(), g.id, g.fence, g.type, g.queue, g.meta, g.worker, g.state, g.attempts, f.released
FROM (SELECT ` + tellFlowsSQL + `state` + endedSQL + ` AS released FROM gone) f LEFT JOIN gone g ON true`

// reclaimArgs are the arguments of reclaimSQL.
func reclaimArgs(limit int, from pgtype.Timestamptz) []any {
	return []any{limit, string(policy.ReasonLeaseExpired), lostText, from, job.CauseOf(lostText, policy.ReasonLeaseExpired)}
}

// lostText is the error of a lost lease, the same on every store.
const lostText = "the lease expired before the attempt was settled"

// removeSQL removes finished jobs of a state.
func removeSQL(s job.State) string {
	return `
WITH over AS (
    DELETE FROM {{schema}}.done WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {{schema}}.done s WHERE ` + inStates([]job.State{s}) + ` AND finished_at <= statement_timestamp() - $1::bigint * interval '1 microsecond' AND needed IS NULL
        ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING id, queue
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, ` + string(s) + `) SELECT queue, -count(*) FROM over GROUP BY queue
), bodies AS (
    DELETE FROM {{schema}}.job b USING over WHERE b.id = ANY (ARRAY[over.id])
), histories AS (
    DELETE FROM {{schema}}.attempt a USING over WHERE a.job_id = ANY (ARRAY[over.id])
)
SELECT count(*) FROM over`
}

const expireKeysSQL = `
DELETE FROM {{schema}}.unique_key WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {{schema}}.unique_key WHERE expires_at <= statement_timestamp() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))`

const nextDueSQL = `SELECT run_at FROM {{schema}}.scheduled WHERE run_at > $1 ORDER BY run_at LIMIT 1`

// Maintain implements job.Store. It also removes unique keys whose window is over.
func (j *Jobs) Maintain(ctx context.Context, m job.Maintenance) (job.Maintained, error) {
	var done job.Maintained
	limit := max(m.Limit, 1)
	now := time.Now()
	due, expired := j.due.from(now), j.expired.from(now)
	var promotedAt, reclaimedAt time.Time
	err := retryAborted(ctx, func() error {
		b := steadyBatch()
		b.Queue(j.db.hot(promoteSQL), limit, due).QueryRow(func(r pgx.Row) error {
			gated := false
			return r.Scan(&done.Promoted, &promotedAt, &gated)
		})
		b.Queue(j.db.hot(reclaimSQL), reclaimArgs(limit, expired)...).Query(func(rows pgx.Rows) (err error) {
			done.Lost, reclaimedAt, err = scanLost(rows)
			done.Reclaimed = len(done.Lost)
			return err
		})
		done.NextDue = time.Time{} // the batch may be repeated
		each(b.Queue(j.db.hot(nextDueSQL), due), []any{(*instant)(&done.NextDue)}, func() error { return nil })
		b.Queue(j.db.sql(expireKeysSQL), limit)
		j.askLimits(b)
		b.Queue(j.db.sql(addUpSQL), j.db.lockKey("totals"))
		b.Queue(j.db.sql(addFlowsSQL), j.db.lockKey("totals"))
		b.Queue(j.db.sql(addCausesSQL), j.db.lockKey("totals"))
		b.Queue(j.db.sql(forgetCausesSQL), j.db.lockKey("totals"))
		return j.db.run(ctx, "maintain", b)
	})
	if err != nil {
		return job.Maintained{}, err
	}
	done.Now = promotedAt.UTC()
	if err := j.maintainGate(ctx, &done); err != nil {
		return done, err // reports the lost leases, which are already taken back
	}
	if done.Promoted < limit {
		j.due.done(promotedAt)
	}
	if done.Reclaimed < limit {
		j.expired.done(reclaimedAt)
	}
	if done.Promoted+done.Reclaimed > 0 {
		j.bell.wake()
	}
	if len(m.Keep) == 0 {
		return done, nil
	}
	removed, err := j.remove(ctx, limit, m.Keep)
	done.Removed = removed
	return done, err
}

// scanLost reads what reclaimSQL returns.
func scanLost(rows pgx.Rows) (list []job.Lost, at time.Time, err error) {
	var l job.Lost
	var id pgtype.UUID
	var meta []byte
	var attempts pgtype.Int4
	var released bool
	_, err = pgx.ForEachRow(rows, []any{
		&at, &id, (*zeronull.Int8)(&l.Fence), (*zeronull.Text)(&l.Type), (*zeronull.Text)(&l.Queue), &meta, (*zeronull.Text)(&l.Worker),
		(*zeronull.Text)(&l.State), &attempts, &released,
	}, func() error {
		if !id.Valid {
			return nil
		}
		l.ID, l.Meta, l.Attempts = id.String(), nil, int(attempts.Int32)
		if meta != nil {
			if err := json.Unmarshal(meta, &l.Meta); err != nil {
				return fmt.Errorf("metadata of job %s: %w", l.ID, err)
			}
		}
		list = append(list, l)
		return nil
	})
	return list, at, err
}

// remove removes up to limit finished jobs whose time is over.
func (j *Jobs) remove(ctx context.Context, limit int, keep map[job.State]time.Duration) (int, error) {
	removed := 0
	for _, state := range job.States() {
		d, ok := keep[state]
		if !ok || !state.Finished() || removed >= limit {
			continue
		}
		b := steadyBatch()
		n, before := 0, removed
		b.Queue(j.db.sql(removeSQL(state)), d.Microseconds(), limit-removed).QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
		if err := j.db.run(ctx, "remove finished jobs", b); err != nil {
			return removed, err
		}
		removed += n
		if removed < limit {
			n, err := j.removeOfFlows(ctx, state, limit-removed, d)
			if err != nil {
				return removed, err
			}
			removed += n
		}
		if removed > before {
			if err := j.forgetEmpty(ctx); err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}
