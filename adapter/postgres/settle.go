package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
)

// moveSQL moves rows of running from "gone" to their history and to the table of their new state. Settling jobs and
// reclaiming lost leases share it; both give "gone" the columns of running with their new values,
// and also: state, finished, and for the history number, kind, started, delay, cause, error, stack, held_refusals,
// refused_since, refused_for, and for dead jobs death, the cause. Conditions are on columns that come first, where reading them is cheap.
const moveSQL = `, history AS (
    INSERT INTO {{schema}}.attempt (job_id, fence, started, finished, delay, number, count, part, kind, worker, reason, error, stack)
    SELECT id, fence, started, finished, delay, number, 1, 1, kind, worker, cause, error, stack FROM gone WHERE number IS NOT NULL
), refused AS (
    INSERT INTO {{schema}}.attempt (job_id, fence, started, finished, delay, number, count, part, worker, reason)
    SELECT id, fence, refused_since, finished, 0, number, held_refusals, 0, worker, refused_for FROM gone
    WHERE number IS NOT NULL AND held_refusals > 0
), ended AS (
    INSERT INTO {{schema}}.done (` + factColumns + `, needed, finished_at, state, cause, dead_type)
    SELECT ` + factColumns + `, CASE WHEN needed > 1 AND state = 'completed' THEN 1 WHEN needed > 1 THEN 3 ELSE needed END, finished, state, CASE WHEN state = 'dead' THEN death END, CASE WHEN state = 'dead' THEN type END
    FROM gone WHERE state NOT IN ('ready', 'waiting', 'scheduled')
), again AS (
    INSERT INTO {{schema}}.ready (` + waitingColumns + `) SELECT ` + waitingColumns + ` FROM gone WHERE state = 'ready'
), held_back AS (
    INSERT INTO {{schema}}.waiting (` + waitingColumns + `, waits_for) SELECT ` + waitingColumns + `, '` + atGate + `' FROM gone WHERE state = 'waiting'
), gate AS (
    INSERT INTO {{schema}}.gate_event (freed, arrived) SELECT freed, arrived FROM (SELECT
        (SELECT array_agg(p) FROM (SELECT held, state FROM gone WHERE held IS NOT NULL) g, unnest(g.held) p WHERE g.state NOT IN ('waiting', 'scheduled') OR left(p, 1) NOT IN ('s', 'b')) AS freed,
        (SELECT array_agg(id) FROM gone WHERE state = 'waiting') AS arrived) e WHERE freed IS NOT NULL OR arrived IS NOT NULL
), later AS (
    INSERT INTO {{schema}}.scheduled (` + waitingColumns + `) SELECT ` + waitingColumns + ` FROM gone WHERE state = 'scheduled'
), keys AS (
    DELETE FROM {{schema}}.unique_key u USING (
        SELECT id, queue, unique_key FROM gone WHERE unique_key IS NOT NULL AND state NOT IN ('ready', 'waiting', 'scheduled') ORDER BY ` + keyOrder + `) g
    WHERE u.queue = ANY (ARRAY[g.queue]) AND u.key = g.unique_key AND u.job_id = g.id AND u.expires_at IS NULL
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, running, waiting, scheduled, ready, completed, dead, cancelled, all_completed, all_dead, all_cancelled, attempts, retries)
    SELECT queue, -count(*), count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'scheduled'), count(*) FILTER (WHERE state = 'ready'), count(*) FILTER (WHERE state = 'completed'),
        count(*) FILTER (WHERE state = 'dead'), count(*) FILTER (WHERE state = 'cancelled'), count(*) FILTER (WHERE state = 'completed'),
        count(*) FILTER (WHERE state = 'dead'), count(*) FILTER (WHERE state = 'cancelled'),
        count(*) FILTER (WHERE kind IS NULL OR kind IN ('complete', 'retry', 'dead', 'cancel')),
        count(*) FILTER (WHERE (kind IS NULL OR kind = 'retry') AND state IN ('ready', 'waiting', 'scheduled'))
    FROM gone GROUP BY queue
)`

// factColumns are the columns that ready, scheduled, running and done have in common.
const factColumns = `id, run_at, fence, attempts, refusals, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at, refused_at,
    worker, reason, refused_reason, last_error, output`

// waitingColumns are the columns of ready and scheduled.
const waitingColumns = factColumns + `, type, places, needed`

// beganSQL is when an attempt began, by the server's clock.
const beganSQL = `least(r.claimed_at + s.since_claim, statement_timestamp())`

// heldSQL is the condition of a lease that is held. It is not one on the index of leases, for a row is found by its ID.
const heldSQL = `r.id = ANY (ARRAY[s.id]) AND r.fence = s.fence AND r.lease_until - statement_timestamp() > interval '0'`

// settleSQL settles any kind. An attempt that began below 0 did not run.
var settleSQL = `
WITH s AS (
    SELECT *, kind = 'complete' AS completes, kind IN ('retry', 'dead') AS failed, kind IN ('retry', 'snooze', 'refuse', 'release') AS repeated, kind IN ('refuse', 'bury') AS keeps,
        CASE WHEN kind = 'release' THEN 0 ELSE delay / 1000 END * interval '1 microsecond' AS wait,
        greatest(began, 0) * interval '1 microsecond' AS since_claim
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::bigint[], $10::text[])
        WITH ORDINALITY AS s(id, fence, kind, delay, cause, error, stack, output, began, death, ord)
), gone AS (
    DELETE FROM {{schema}}.running r USING s
    WHERE ` + heldSQL + `
    RETURNING s.ord,
        CASE WHEN s.completes THEN 'completed' WHEN s.kind IN ('dead', 'bury') THEN 'dead' WHEN s.kind = 'cancel' OR r.cancel_requested IS NOT NULL THEN 'cancelled'
            WHEN s.wait > interval '0' THEN 'scheduled' ELSE ` + dueStateSQL("r") + ` END AS state, r.places AS held, ` + keptSQL + ` AS places,
        CASE WHEN NOT s.keeps THEN r.attempts + 1 END AS number, r.refusals AS held_refusals, r.queue, r.unique_key, r.id,
        r.fence, r.priority, r.cancel_requested, r.claimed_at, r.worker, r.type, r.needed,
        CASE WHEN s.began < 0 THEN r.started_at ELSE coalesce(r.started_at, ` + beganSQL + `) END AS started_at,
        CASE WHEN s.repeated THEN statement_timestamp() + s.wait ELSE r.run_at END AS run_at,
        CASE WHEN s.failed THEN r.attempts + 1 ELSE r.attempts END AS attempts,
        CASE WHEN s.failed THEN statement_timestamp() ELSE r.failed_at END AS failed_at,
        CASE WHEN s.failed THEN s.error ELSE r.last_error END AS last_error,
        CASE WHEN s.completes OR s.failed OR s.kind IN ('cancel', 'bury') THEN s.cause ELSE r.reason END AS reason,
        CASE WHEN s.completes THEN s.output ELSE r.output END AS output,
        CASE WHEN s.completes THEN 0 WHEN s.kind = 'refuse' THEN r.refusals + 1 WHEN s.kind = 'bury' THEN r.refusals ELSE 0 END AS refusals,
        CASE WHEN NOT s.keeps THEN NULL WHEN s.kind = 'refuse' AND r.refusals = 0 THEN statement_timestamp() ELSE r.refused_at END AS refused_at,
        CASE WHEN NOT s.keeps THEN NULL WHEN s.kind = 'refuse' THEN s.cause ELSE r.refused_reason END AS refused_reason,
        s.kind, s.delay, s.cause, s.error, s.stack, s.death, ` + beganSQL + ` AS started, statement_timestamp() AS finished,
        r.refused_at AS refused_since, r.refused_reason AS refused_for
)` + moveSQL + `
SELECT coalesce(array_agg(ord), '{}'), ` + tellFlowsSQL + `state` + endedSQL + ` OR coalesce(bool_or(state = 'ready'), false), coalesce(bool_or(held IS NOT NULL OR state = 'waiting'), false),
    coalesce(array_agg(ord) FILTER (WHERE state = 'cancelled' AND kind <> 'cancel'), '{}') FROM gone`

// completeSQL settles completions that a row of done describes completely. Most settlements are of this kind, and this
// statement takes two thirds of the server's time for settleSQL.
var completeSQL = `
WITH s AS (
    SELECT *, began * interval '1 microsecond' AS since_claim
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bytea[], $5::bigint[]) WITH ORDINALITY AS s(id, fence, cause, output, began, ord)
), gone AS (
    DELETE FROM {{schema}}.running r USING s
    WHERE ` + heldSQL + `
    RETURNING s.ord, r.queue, r.unique_key, r.refusals, r.id, r.run_at, r.fence, r.attempts, r.priority, r.cancel_requested, coalesce(r.started_at, ` + beganSQL + `) AS started_at, r.claimed_at,
        r.failed_at, r.refused_at, r.worker, r.refused_reason, r.last_error, r.needed, s.cause, s.output, ` + beganSQL + ` AS completed_from, r.places AS held
), gate AS (
    INSERT INTO {{schema}}.gate_event (freed) SELECT array_agg(p) FROM (SELECT held FROM gone WHERE held IS NOT NULL) g, unnest(g.held) p HAVING count(*) > 0
), refused AS (
    INSERT INTO {{schema}}.attempt (job_id, fence, started, finished, delay, number, count, part, worker, reason)
    SELECT id, fence, refused_at, statement_timestamp(), 0, attempts + 1, refusals, 0, worker, refused_reason FROM gone WHERE refusals > 0
), ended AS (
    INSERT INTO {{schema}}.done (` + factColumns + `, needed, finished_at, completed_from, state)
    SELECT id, run_at, fence, attempts, 0, priority, cancel_requested, queue, unique_key, started_at, claimed_at, failed_at, NULL,
        worker, cause, NULL, last_error, output, CASE WHEN needed > 0 THEN 1 END, statement_timestamp(), completed_from, 'completed' FROM gone
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, running, completed, all_completed, attempts)
    SELECT queue, -n, n, n, n FROM (SELECT queue, count(*) AS n FROM gone GROUP BY queue) c
)` + keysSQL + `
SELECT coalesce(array_agg(ord), '{}'), ` + tellFlowsSQL + `'completed'::text` + endedSQL + `, coalesce(bool_or(held IS NOT NULL), false), '{}'::bigint[] FROM gone`

// Settle implements job.Store. Completions are one transaction and all other settlements another.
func (j *Jobs) Settle(ctx context.Context, list []job.Settlement) []error {
	errs := make([]error, len(list))
	var order []int
	for i := range list {
		if errs[i] = list[i].Check(); errs[i] == nil {
			order = append(order, i)
		}
	}
	// In the order of their IDs, so that groups do not deadlock. Settlements of the same job are written in the order of the
	// list, one after the other.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[a].ID, list[b].ID) })
	for len(order) > 0 {
		group, rest := distinct(list, order)
		completions, others := divideSettlements(list, group)
		for i, err := range j.settle(ctx, j.db.hot(completeSQL), pick(list, completions), completionColumns) {
			errs[completions[i]] = err
		}
		for i, err := range j.settle(ctx, j.db.hot(settleSQL), pick(list, others), settlementColumns) {
			errs[others[i]] = err
		}
		order = rest
		// A settlement that the caller will repeat comes before the later ones of its job.
		if i := slices.IndexFunc(group, func(at int) bool { return errs[at] != nil && !job.IsFinal(errs[at]) }); i >= 0 {
			for _, at := range rest {
				errs[at] = errs[group[i]]
			}
			break
		}
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return nil
	}
	return errs
}

// distinct divides sorted positions into the first of each job and the others.
func distinct(list []job.Settlement, order []int) (group, rest []int) {
	for i, at := range order {
		if i > 0 && list[at].ID == list[order[i-1]].ID {
			rest = append(rest, at)
			continue
		}
		group = append(group, at)
	}
	return group, rest
}

// divideSettlements divides positions by the statement that settles them: completeSQL or settleSQL.
func divideSettlements(list []job.Settlement, positions []int) (completions, others []int) {
	for _, at := range positions {
		if s := &list[at]; s.Kind == job.KindComplete && s.Delay == 0 && s.Error == "" && s.Stack == "" {
			completions = append(completions, at)
		} else {
			others = append(others, at)
		}
	}
	return completions, others
}

// settle writes settlements of different jobs by a statement with these columns.
func (j *Jobs) settle(ctx context.Context, statement string, list []job.Settlement, columns func([]job.Settlement) []any) []error {
	if len(list) == 0 {
		return nil
	}
	var settled, cancelled []int
	ready, gated := false, false
	err := retryAborted(ctx, func() error {
		b := steadyBatch()
		b.Queue(statement, columns(list)...).QueryRow(func(r pgx.Row) error { return r.Scan(&settled, &ready, &gated, &cancelled) })
		return j.db.run(ctx, "settle", b)
	})
	if err != nil {
		return all(len(list), err)
	}
	if ready {
		j.bell.wake()
	}
	if gated || ready && j.limits.known() {
		j.tendLater()
	}
	errs := make([]error, len(list))
	for _, ord := range cancelled {
		errs[ord-1] = job.ErrCancelRequested
	}
	missing := without(len(list), settled)
	if len(missing) == 0 {
		return errs
	}
	leases, kinds := make([]job.Ref, len(missing)), make([]*string, len(missing))
	for i, at := range missing {
		kind := string(list[at].Kind)
		leases[i], kinds[i] = list[at].Ref, &kind
	}
	for i, err := range j.judge(ctx, leases, kinds) {
		errs[missing[i]] = err
	}
	return errs
}

// settlementColumns returns the arguments of settleSQL. A column without values is left out: the server reads a NULL array,
// or one that is shorter than the others, as NULLs.
func settlementColumns(list []job.Settlement) []any {
	n := len(list)
	ids, fences, kinds, delays, began := make([]pgtype.UUID, n), make([]int64, n), make([]string, n), make([]int64, n), make([]int64, n)
	var causes, texts, stacks, deaths []pgtype.Text
	var outputs [][]byte
	for i := range list {
		s := &list[i]
		ids[i], _ = parseID(s.ID)
		deaths = addText(deaths, i, s.Cause())
		fences[i], kinds[i], delays[i], began[i] = s.Fence, string(s.Kind), int64(min(s.Delay, job.MaxDelay)), max(s.Started, 0).Microseconds()
		if !s.Ran() {
			began[i] = -1
		}
		causes, texts, stacks = addText(causes, i, string(s.Reason)), addText(texts, i, s.Error), addText(stacks, i, s.Stack)
		outputs = addBytes(outputs, i, s.Output)
	}
	return []any{ids, fences, kinds, delays, causes, texts, stacks, outputs, began, deaths}
}

// completionColumns are the arguments of completeSQL.
func completionColumns(list []job.Settlement) []any {
	n := len(list)
	ids, fences, began := make([]pgtype.UUID, n), make([]int64, n), make([]int64, n)
	var causes []pgtype.Text
	var outputs [][]byte
	for i := range list {
		s := &list[i]
		ids[i], _ = parseID(s.ID)
		fences[i], began[i] = s.Fence, max(s.Started, 0).Microseconds()
		causes, outputs = addText(causes, i, string(s.Reason)), addBytes(outputs, i, s.Output)
	}
	return []any{ids, fences, causes, outputs, began}
}

// addText puts a text at its position in a column and fills the gap before it with NULLs.
func addText(column []pgtype.Text, position int, s string) []pgtype.Text {
	if s == "" {
		return column
	}
	return append(append(column, make([]pgtype.Text, position-len(column))...), text(s))
}

// addBytes is addText for bytes.
func addBytes(column [][]byte, position int, b []byte) [][]byte {
	if b == nil {
		return column
	}
	return append(append(column, make([][]byte, position-len(column))...), b)
}

// text returns a text as it is stored: "" is NULL.
func text(s string) pgtype.Text {
	if s == "" {
		return pgtype.Text{}
	}
	return pgtype.Text{String: job.CleanText(s), Valid: true}
}
