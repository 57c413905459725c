package pgpipe

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/internal/verdict"
	"github.com/tenetdev/tenet/pipeline"
)

// Queue is a pipeline.Source that claims the rows of a table. It is safe for concurrent use, by any number of processes on
// the same table. It is also a pipeline.Acker, Nacker, Extender and Checker.
type Queue struct {
	*table
	claim, settle, move string // statements
}

// OpenQueue connects to the server of a URL without Options in it and checks the table. Close it after the engine's Run.
func OpenQueue(ctx context.Context, server string, o Options) (*Queue, error) {
	t, err := open(ctx, server, o)
	if err != nil {
		return nil, err
	}
	q := &Queue{table: t}
	if err := q.check(); err != nil {
		t.pool.Close()
		return nil, err
	}
	q.prepare()
	return q, nil
}

func (q *Queue) check() error {
	faults := []error{
		q.needsBody(notNull(unique), "be NOT NULL and have a unique index of its own"),
		q.needs("available", q.o.Available, notNull(ofType("timestamp with time zone")), "be timestamptz NOT NULL"),
		q.needs("deliveries", q.o.Deliveries, notNull(ofType("smallint", "integer", "bigint")), "be an integer NOT NULL"),
	}
	if q.o.Done != "" {
		faults = append(faults, q.needs("done", q.o.Done, ofType("timestamp with time zone"), "be timestamptz"))
	}
	return errors.Join(faults...)
}

// prepare builds the statements. Names and types come from Options and the server's catalog, quoted; everything else is a
// parameter. $1 is the list of IDs and $2 that of tokens, in the statements that have them.
func (q *Queue) prepare() {
	id, avail, count := quote(q.o.ID), quote(q.o.Available), quote(q.o.Deliveries)
	open, openRow, take := "", "", "DELETE FROM "+q.name+" AS q USING given AS g WHERE "
	if q.o.Done != "" {
		done := quote(q.o.Done)
		open, openRow = " AND "+done+" IS NULL", " AND q."+done+" IS NULL"
		take = "UPDATE " + q.name + " AS q SET " + done + " = now() FROM given AS g WHERE "
	}
	// The array keeps the planner from reading the whole table for a join whose size it cannot know.
	q.claim = `WITH due AS MATERIALIZED (
			SELECT ` + id + ` AS key, ` + avail + ` AS since FROM ` + q.name + ` WHERE ` + avail + ` <= now()` + open + `
			ORDER BY ` + avail + `, ` + id + ` LIMIT $1 FOR UPDATE SKIP LOCKED),
		claimed AS (
			UPDATE ` + q.name + ` AS q SET ` + avail + ` = now() + $2::bigint * interval '1 microsecond', ` + count + ` = q.` + count + ` + 1
			WHERE q.` + id + ` = ANY (ARRAY(SELECT key FROM due)) RETURNING q.` + id + ` AS key, q.` + count + `::bigint AS token, ` + q.bodySQL("q") + `)
		SELECT token, ` + bodyNames + ` FROM claimed JOIN due USING (key) ORDER BY since, key`
	given := `WITH given AS (SELECT u.key::` + q.columns[q.o.ID].typ + ` AS key, u.token, u.key AS name FROM unnest($1::text[], $2::bigint[]) AS u(key, token))`
	// The array, and OFFSET below, have rows looked up in the index, even if the table was empty when its statistics were taken.
	mine := `q.` + id + ` = ANY (ARRAY[g.key]) AND q.` + count + ` = g.token`
	// A missing row was acknowledged before; a row with another token belongs to another worker.
	q.settle = given + `, taken AS (` + take + mine + ` RETURNING g.name)
		SELECT g.name FROM given AS g, LATERAL (SELECT FROM ` + q.name + ` AS q WHERE q.` + id + ` = g.key OFFSET 0) AS q
		WHERE g.name NOT IN (SELECT name FROM taken)`
	q.move = given + ` UPDATE ` + q.name + ` AS q SET ` + avail + ` = now() + $3::bigint * interval '1 microsecond' FROM given AS g WHERE ` + mine + openRow + ` RETURNING g.name`
}

// Fetch implements pipeline.Source.
func (q *Queue) Fetch(ctx context.Context, r pipeline.FetchRequest) ([]pipeline.Delivery, error) {
	return q.poll(ctx, r.Wait, func() ([]pipeline.Delivery, error) { return q.take(ctx, r.Max) })
}

func (q *Queue) take(ctx context.Context, most int) (list []pipeline.Delivery, err error) {
	deadline := time.Now().Add(q.o.Lease) // read before the server starts the lease
	rows, err := q.pool.Query(ctx, q.claim, most, q.o.Lease.Microseconds())
	if err != nil {
		return nil, kind.Wrap("claim", err)
	}
	defer rows.Close()
	for rows.Next() {
		var count int64
		var b body
		if err := rows.Scan(append([]any{&count}, b.targets()...)...); err != nil {
			return list, kind.Wrap("claim", err)
		}
		list = append(list, pipeline.Delivery{Transaction: b.transaction(), Token: &token{count: count}, Count: int(count), Deadline: deadline})
	}
	return list, kind.Wrap("claim", rows.Err())
}

// Ack implements pipeline.Acker. It retries after a broken connection or a restart of the server until ctx ends. Acknowledging
// a delivery twice is not an error. The error of a delivery that was given back, or claimed by another consumer since, is [ErrLost];
// without Options.Done, the other consumer's acknowledgement cannot be told from an earlier one of this delivery.
func (q *Queue) Ack(ctx context.Context, done []pipeline.Delivery) []error {
	ids, tokens := keysOf(done)
	var lost []string
	err := retryTransient(ctx, func() (err error) {
		lost, err = q.names(ctx, q.settle, ids, tokens)
		return err
	})
	return verdicts("acknowledge", done, err, func(d pipeline.Delivery) bool {
		return fenceOf(d) != noFence && !slices.Contains(lost, d.Transaction.ID())
	})
}

// Nack implements pipeline.Nacker.
func (q *Queue) Nack(ctx context.Context, d pipeline.Delivery, delay time.Duration, _ error) error {
	given := []pipeline.Delivery{d}
	errs := q.postpone(ctx, "give back", given, delay)
	if errs != nil {
		return errs[0]
	}
	d.Token.(*token).back.Store(true)
	return nil
}

// Extend implements pipeline.Extender: it extends the leases to Options.Lease from now.
func (q *Queue) Extend(ctx context.Context, held []pipeline.Delivery) []error {
	return q.postpone(ctx, "extend", held, q.o.Lease)
}

// ExtendEvery implements pipeline.Extender: a third of the lease, so that two attempts may fail.
func (q *Queue) ExtendEvery() time.Duration { return q.o.Lease / 3 }

// postpone sets when rows may be claimed again.
func (q *Queue) postpone(ctx context.Context, what string, held []pipeline.Delivery, delay time.Duration) []error {
	ids, tokens := keysOf(held)
	var moved []string
	err := retryTransient(ctx, func() (err error) {
		moved, err = q.names(ctx, q.move, ids, tokens, delay.Microseconds())
		return err
	})
	return verdicts(what, held, err, func(d pipeline.Delivery) bool { return slices.Contains(moved, d.Transaction.ID()) })
}

// names runs a statement that returns IDs.
func (q *Queue) names(ctx context.Context, sql string, args ...any) ([]string, error) {
	rows, _ := q.pool.Query(ctx, sql, args...) // whose error the rows have too
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// token belongs to a delivery. The row keeps its count until the next claim, so the delivery itself says that it was given back.
type token struct {
	count int64
	back  atomic.Bool
}

const noFence = -1 // matches no row

// fenceOf returns the count of a delivery, or noFence if it was given back or is from another source.
func fenceOf(d pipeline.Delivery) int64 {
	if t, ok := d.Token.(*token); ok && !t.back.Load() {
		return t.count
	}
	return noFence
}

func keysOf(list []pipeline.Delivery) (ids []string, tokens []int64) {
	ids, tokens = make([]string, len(list)), make([]int64, len(list))
	for i, d := range list {
		ids[i], tokens[i] = d.Transaction.ID(), fenceOf(d)
	}
	return ids, tokens
}

// verdicts returns an error or nil for each delivery, in their order; nil if there are no errors. Without err, the error of one that is
// not ok is [ErrLost].
func verdicts(what string, list []pipeline.Delivery, err error, ok func(pipeline.Delivery) bool) []error {
	var errs verdict.List
	for i, d := range list {
		failed := kind.Wrap(what, err)
		if err == nil && !ok(d) {
			failed = ErrLost
		}
		errs.Set(i, len(list), failed)
	}
	return errs
}

// Close closes all connections. Rows that are neither acknowledged nor given back are delivered again when their leases end.
func (q *Queue) Close() error {
	q.pool.Close()
	return nil
}
