package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// Up to maxCombined jobs of concurrent calls are stored together; a call with more than maxShared is stored alone.
const (
	maxCombined = 1000
	maxShared   = 100
)

// keyOrder is the order in which all statements take and release keys: that of divide, whatever the database's collation.
const keyOrder = `queue COLLATE "C", unique_key`

var (
	inputSQL = `
WITH input AS (
    SELECT id, type, queue, priority, max_attempts, timeout, payload, meta, unique_key, unique_for, waits_for, needed, ord,
           coalesce(run_at, statement_timestamp()) AS run_at
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::smallint[], $5::integer[], $6::bigint[], $7::bytea[], $8::text[], $9::timestamptz[],
                $10::bytea[], $11::bigint[], $12::text[], $13::smallint[])
         WITH ORDINALITY AS i(id, type, queue, priority, max_attempts, timeout, payload, meta, run_at, unique_key, unique_for, waits_for, needed, ord)
)`
	// A job neither releases nor retakes a key that is held for a window: only its body contains the key.
	storeSQL = `, body AS (
    INSERT INTO {{schema}}.job (id, created_at, timeout, max_attempts, type, queue, priority, unique_key, payload, meta)
    SELECT id, statement_timestamp(), timeout, max_attempts, type, queue, priority, unique_key, payload, meta::json FROM fresh
), due AS (
    INSERT INTO {{schema}}.ready (id, run_at, fence, attempts, refusals, priority, queue, type, unique_key, needed)
    SELECT id, run_at, 0, 0, 0, priority, queue, type, CASE WHEN unique_for > 0 THEN NULL ELSE unique_key END, needed
    FROM fresh WHERE due AND NOT bound
), later AS (
    INSERT INTO {{schema}}.scheduled (id, run_at, fence, attempts, refusals, priority, queue, type, unique_key, needed)
    SELECT id, run_at, 0, 0, 0, priority, queue, type, CASE WHEN unique_for > 0 THEN NULL ELSE unique_key END, needed
    FROM fresh WHERE run_at > statement_timestamp() AND waits_for IS NULL
), held AS (
    INSERT INTO {{schema}}.waiting (id, run_at, fence, attempts, refusals, priority, queue, type, unique_key, needed, waits_for)
    SELECT id, run_at, 0, 0, 0, priority, queue, type, CASE WHEN unique_for > 0 THEN NULL ELSE unique_key END, needed, coalesce(waits_for, '` + atGate + `')
    FROM fresh WHERE waits_for IS NOT NULL OR due AND bound
), gate AS (
    INSERT INTO {{schema}}.gate_event (arrived)
    SELECT array_agg(id) FROM (SELECT id, (row_number() OVER () - 1) / 1000 AS part FROM fresh WHERE due AND bound) f GROUP BY part
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, enqueued, waiting, ready, scheduled)
    SELECT queue, count(*), count(*) FILTER (WHERE waits_for IS NOT NULL OR due AND bound), count(*) FILTER (WHERE due AND NOT bound),
        count(*) FILTER (WHERE waits_for IS NULL AND run_at > statement_timestamp())
    FROM fresh GROUP BY queue
)`
	enqueueSQL = inputSQL + `, fresh AS (SELECT *, ` + freshSQL + ` FROM input i)` + storeSQL + `
SELECT`

	// plainSQL stores jobs that are due and have neither keys nor limits, with half the server's work. It fails with a division by zero where
	// jobs have limits, as copySQL does.
	plainSQL = `
WITH input AS (
    SELECT id, type, queue, priority, max_attempts, timeout, payload, meta
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::smallint[], $5::integer[], $6::bigint[], $7::bytea[], $8::text[])
         AS i(id, type, queue, priority, max_attempts, timeout, payload, meta)
), body AS (
    INSERT INTO {{schema}}.job (id, created_at, timeout, max_attempts, type, queue, priority, payload, meta)
    SELECT id, statement_timestamp(), timeout, max_attempts, type, queue, priority, payload, meta::json FROM input
), due AS (
    INSERT INTO {{schema}}.ready (id, run_at, fence, attempts, refusals, priority, queue, type)
    SELECT id, statement_timestamp(), 0, 0, 0, priority, queue, type FROM input
), counted AS (
    INSERT INTO {{schema}}.total_change (queue, enqueued, ready) SELECT queue, count(*), count(*) FROM input GROUP BY queue
)
SELECT 1 / (NOT EXISTS (SELECT FROM {{schema}}.bound))::integer`
	plainArguments = 8

	// A key that is already taken is written unchanged, because only then does the statement wait for a concurrent one and read
	// its job's ID. If an earlier try of this insert took the key and its confirmation was lost, no new job is stored.
	enqueueUniqueSQL = inputSQL + `, taken AS (
    INSERT INTO {{schema}}.unique_key AS u (queue, key, job_id, expires_at)
    SELECT queue, unique_key, id, CASE WHEN unique_for > 0 THEN statement_timestamp() + unique_for * interval '1 microsecond' END
    FROM input WHERE unique_key IS NOT NULL ORDER BY ` + keyOrder + `
    ON CONFLICT (queue, key) DO UPDATE SET
        job_id = CASE WHEN u.expires_at <= statement_timestamp() THEN excluded.job_id ELSE u.job_id END,
        expires_at = CASE WHEN u.expires_at <= statement_timestamp() THEN excluded.expires_at ELSE u.expires_at END
    RETURNING queue, key, job_id
), owned AS (
    SELECT i.*, t.job_id, t.job_id IS NULL OR t.job_id = i.id AND NOT EXISTS (SELECT FROM {{schema}}.job j WHERE j.id = ANY (ARRAY[i.id])) AS is_new
    FROM input i LEFT JOIN taken t ON t.queue = i.queue AND t.key = i.unique_key
), fresh AS (SELECT *, ` + freshSQL + ` FROM owned i WHERE is_new)` + storeSQL + `
SELECT ord, job_id, is_new FROM owned WHERE job_id IS NOT NULL`
)

// Enqueue implements job.Store. A cancelled call may have stored its jobs.
func (j *Jobs) Enqueue(ctx context.Context, jobs []job.Insert) ([]job.Receipt, error) {
	if j.db.closed.Load() {
		return nil, job.ErrClosed
	}
	entries, err := prepare(jobs)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	durability := job.Fsynced
	var receipts []job.Receipt
	switch {
	case len(entries) > maxShared:
		receipts, err = j.store(ctx, entries, true)
	default:
		var shared bool
		if receipts, shared, err = j.flusher.add(ctx, entries); shared {
			durability = job.GroupCommitted
		}
	}
	if err != nil {
		return nil, err
	}
	if !j.durable {
		durability = job.InMemory
	}
	for i := range receipts {
		if !receipts[i].Existed {
			receipts[i].Durability = durability
		}
	}
	return receipts, nil
}

// entry is an insert ready to be sent.
type entry struct {
	job.Insert
	id   pgtype.UUID
	meta pgtype.Text // JSON
}

func prepare(jobs []job.Insert) ([]entry, error) {
	list := make([]entry, len(jobs))
	for i, in := range jobs {
		id, ok := parseID(in.ID)
		if !ok {
			return nil, fmt.Errorf("postgres: enqueue: job %d: ID %q is not a UUID", i, in.ID)
		}
		list[i] = entry{Insert: in, id: id}
		if in.Meta == nil {
			continue
		}
		meta, err := json.Marshal(in.Meta)
		if err != nil {
			return nil, fmt.Errorf("postgres: enqueue: job %d: meta: %w", i, err)
		}
		list[i].meta = pgtype.Text{String: string(meta), Valid: true}
	}
	return list, nil
}

// Statements before those that take unique keys. The server plans for the actual number of keys, and waits for a key that another
// transaction holds, but not for much longer than a commit takes if it is impatient.
const (
	planKeys    = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`
	impatiently = planKeys + `, set_config('lock_timeout', '100ms', true)`
)

// store writes entries in one transaction and wakes workers. Unless it is patient, it fails with lockNotAvailable if it has to wait for
// a key.
func (j *Jobs) store(ctx context.Context, entries []entry, patient bool) ([]job.Receipt, error) {
	if plain(entries) && !j.limits.known() {
		receipts, err := j.storePlain(ctx, entries)
		if code(err) != divisionByZero {
			return receipts, err
		}
		j.limits.note(true)
	}
	before := planKeys
	if !patient {
		before = impatiently
	}
	var receipts []job.Receipt
	err := retryAborted(ctx, func() error {
		b := &pgx.Batch{}
		if len(entries) > maxShared {
			b.Queue(uncompiled)
		}
		receipts = j.queue(b, entries, before)
		j.askLimits(b)
		return j.db.run(ctx, "enqueue", b)
	})
	if err != nil {
		return nil, err
	}
	if j.limits.known() {
		j.tendSoon(ctx)
	}
	if anyDue(entries) {
		j.bell.wake()
	}
	return receipts, nil
}

// storePlain is store for plain entries without limits. Many are copied.
func (j *Jobs) storePlain(ctx context.Context, entries []entry) ([]job.Receipt, error) {
	receipts := make([]job.Receipt, len(entries))
	all, _ := divide(entries, receipts)
	err := retryAborted(ctx, func() error {
		if len(entries) > maxShared {
			return j.copy(ctx, entries)
		}
		b := &pgx.Batch{}
		j.queuePlain(b, all)
		j.askLimits(b)
		return j.db.run(ctx, "enqueue", b)
	})
	if err != nil {
		return nil, err
	}
	j.bell.wake()
	return receipts, nil
}

func (j *Jobs) queuePlain(b *pgx.Batch, all columns) {
	for part := range all.parts() {
		b.Queue(j.db.hot(plainSQL), part.arguments()[:plainArguments]...)
	}
}

// queue adds the statements that store entries. The statement before, unless it is "", precedes the one that takes keys. The receipts are
// complete once the batch has run.
func (j *Jobs) queue(b *pgx.Batch, entries []entry, before string) []job.Receipt {
	receipts := make([]job.Receipt, len(entries))
	firsts, repeated := divide(entries, receipts)
	if firsts.keys > 0 && before != "" {
		b.Queue(before)
	}
	for part := range firsts.parts() {
		if firsts.keys == 0 {
			b.Queue(j.db.hot(enqueueSQL), part.arguments()...)
			continue
		}
		b.Queue(j.db.hot(enqueueUniqueSQL), part.arguments()...).Query(func(rows pgx.Rows) error {
			return part.read(rows, repeated, receipts)
		})
	}
	return receipts
}

// columns are the entries to store.
type columns struct {
	entries   []entry
	positions []int // of the entries to store
	keys      int   // how many of them have a unique key
}

// partBytes is the size of the payloads that a statement stores, not counting the last one: a message to the server has room for 1 GiB.
const partBytes = 16 << 20

func (e *entry) size() int { return len(e.Payload) + len(e.meta.String) }

// parts divides the entries among statements.
func (c columns) parts() iter.Seq[columns] {
	return func(yield func(columns) bool) {
		for start, end := 0, 0; start < len(c.positions); start = end {
			for bytes := 0; end < len(c.positions) && bytes < partBytes; end++ {
				bytes += c.entries[c.positions[end]].size()
			}
			if !yield(columns{c.entries, c.positions[start:end], c.keys}) {
				return
			}
		}
	}
}

// repetition is an entry with the key of an earlier entry of the same call.
type repetition struct{ position, first int }

type uniqueKey struct{ queue, key string }

// divide finds the entries to store and fills in their receipts as if all were new.
func divide(entries []entry, receipts []job.Receipt) (columns, []repetition) {
	c := columns{entries: entries, positions: make([]int, 0, len(entries))}
	var repeated []repetition
	var seen map[uniqueKey]int
	bytes := 0
	for i := range entries {
		e := &entries[i]
		receipts[i].ID = e.ID
		bytes += e.size()
		if e.UniqueKey != "" {
			k := uniqueKey{e.Queue, e.UniqueKey}
			if first, ok := seen[k]; ok {
				repeated = append(repeated, repetition{i, first})
				continue
			}
			if seen == nil {
				seen = map[uniqueKey]int{}
			}
			seen[k] = i
			c.keys++
		}
		c.positions = append(c.positions, i)
	}
	if c.keys > 0 && bytes > partBytes { // all transactions take keys in the same order, that of one statement
		slices.SortFunc(c.positions, func(a, b int) int {
			return cmp.Or(cmp.Compare(entries[a].Queue, entries[b].Queue), cmp.Compare(entries[a].UniqueKey, entries[b].UniqueKey))
		})
	}
	return c, repeated
}

// rowReader is the common part of the rows of pgx and of database/sql.
type rowReader interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

// read fills in the receipts of unique entries, and those of repetitions, which are right after the last part.
func (c columns) read(rows rowReader, repeated []repetition, receipts []job.Receipt) error {
	for rows.Next() {
		var position int
		var id string
		var fresh bool
		if err := rows.Scan(&position, &id, &fresh); err != nil {
			return err
		}
		receipts[c.positions[position-1]] = job.Receipt{ID: id, Existed: !fresh}
	}
	for _, r := range repeated {
		receipts[r.position] = job.Receipt{ID: receipts[r.first].ID, Existed: true}
	}
	return rows.Err()
}

// arguments are the values of the statement, one array for each column.
func (c columns) arguments() []any {
	n := len(c.positions)
	ids, types, queues := make([]pgtype.UUID, n), make([]string, n), make([]string, n)
	priorities, attempts, timeouts := make([]int16, n), make([]int32, n), make([]int64, n)
	payloads, metas, runAts := make([][]byte, n), make([]pgtype.Text, n), make([]pgtype.Timestamptz, n)
	keys, windows := make([][]byte, n), make([]int64, n)
	var reasons []pgtype.Text
	var needed []pgtype.Int2
	for i, at := range c.positions {
		e := &c.entries[at]
		ids[i], types[i], queues[i] = e.id, e.Type, e.Queue
		priorities[i], attempts[i], timeouts[i] = int16(e.Priority), int32(e.MaxAttempts), int64(e.Timeout)
		payloads[i], metas[i], runAts[i] = e.Payload, e.meta, stamp(e.RunAt)
		reasons = addText(reasons, i, e.WaitsFor)
		if e.Needed != job.NotInFlow {
			needed = append(append(needed, make([]pgtype.Int2, i-len(needed))...), pgtype.Int2{Int16: int16(e.Needed), Valid: true})
		}
		if e.UniqueKey != "" {
			keys[i], windows[i] = []byte(e.UniqueKey), max(e.UniqueFor.Microseconds(), int64(min(e.UniqueFor, 1))) // 0 would be the job's life
		}
	}
	return []any{ids, types, queues, priorities, attempts, timeouts, payloads, metas, runAts, keys, windows, reasons, needed}
}

func anyDue(entries []entry) bool {
	now := time.Now()
	for i := range entries {
		if entries[i].WaitsFor == "" && !entries[i].RunAt.After(now) {
			return true
		}
	}
	return false
}

// mostAborts is how often a transaction is repeated.
const mostAborts = 20

// retryAborted repeats a transaction that the server aborted to break a deadlock between writers of the same keys or IDs, or because
// they cannot be serialized in a database with a stricter isolation than the default.
func retryAborted(ctx context.Context, write func() error) error {
	for backoff := (wait.Backoff{Min: time.Millisecond, Max: 100 * time.Millisecond}); ; {
		err := write()
		if c := code(err); c != deadlock && c != serializationFailure || backoff.Failures() == mostAborts || backoff.Wait(ctx) != nil {
			return err
		}
	}
}
