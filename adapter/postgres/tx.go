package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

var errNoTx = errors.New("postgres: the transaction is nil")

// EnqueueTx stores jobs as part of the caller's transaction: when it commits they exist and workers are woken, except if
// this process has announced other jobs in the last 5 ms and the transaction commits later than that: then workers find them when they next
// poll, because the server commits transactions with announcements one at a time. Jobs with unique keys make other transactions that
// enqueue the same keys wait until it ends. Requests are checked as by job.Client.EnqueueMany; receipts are in their order. For a
// transaction of database/sql use [Jobs.SQL].
func (j *Jobs) EnqueueTx(ctx context.Context, tx pgx.Tx, requests ...job.Request) ([]job.Receipt, error) {
	list, err := job.Inserts(requests)
	if err != nil {
		return nil, err
	}
	return j.insertTx(ctx, tx, list)
}

func (j *Jobs) insertTx(ctx context.Context, tx pgx.Tx, list []job.Insert) ([]job.Receipt, error) {
	if tx == nil {
		return nil, errNoTx
	}
	entries, err := prepare(list)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	b := &pgx.Batch{}
	receipts := j.queue(b, entries, "")
	if j.announce(entries) {
		b.Queue(notifySQL, j.channel())
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, j.db.wrap("enqueue", err)
	}
	return inTransaction(receipts), nil
}

// SQLJobs joins a job store to transactions of database/sql, with any PostgreSQL driver. It is safe for concurrent use.
type SQLJobs struct{ jobs *Jobs }

// SQL is the store for transactions of database/sql.
func (j *Jobs) SQL() SQLJobs { return SQLJobs{j} }

// EnqueueTx is [Jobs.EnqueueTx] for a transaction of database/sql.
func (s SQLJobs) EnqueueTx(ctx context.Context, tx *sql.Tx, requests ...job.Request) ([]job.Receipt, error) {
	list, err := job.Inserts(requests)
	if err != nil {
		return nil, err
	}
	return s.jobs.insertSQL(ctx, tx, list)
}

// CompleteTx is [Jobs.CompleteTx] for a transaction of database/sql.
func (s SQLJobs) CompleteTx(ctx context.Context, tx *sql.Tx, lease job.Lease) error {
	if tx == nil {
		return errNoTx
	}
	j, settled, ready, gated := s.jobs, "", false, false
	list := []job.Settlement{{Ref: lease.Ref(), Kind: job.KindComplete, Reason: policy.ReasonSuccess}}
	if err := tx.QueryRowContext(ctx, j.db.hot(completeSQL), literals(completionColumns(list))...).Scan(&settled, &ready, &gated, new(any)); err != nil { // none is cancelled
		return j.db.wrap("complete", err)
	}
	if settled != "{}" {
		if ready || gated {
			_, err := tx.ExecContext(ctx, notifySQL, j.channel())
			return j.db.wrap("complete", err)
		}
		return nil
	}
	var state leaseState
	if err := tx.QueryRowContext(ctx, j.db.hot(judgeSQL), literals(judgedColumns(lease))...).Scan(state.targets()...); err != nil {
		return j.db.wrap("complete", err)
	}
	return state.err()
}

func (j *Jobs) insertSQL(ctx context.Context, tx *sql.Tx, list []job.Insert) ([]job.Receipt, error) {
	if tx == nil {
		return nil, errNoTx
	}
	entries, err := prepare(list)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	receipts := make([]job.Receipt, len(entries))
	if err := j.enqueueSQL(ctx, tx, entries, receipts); err != nil {
		return nil, j.db.wrap("enqueue", err)
	}
	if j.announce(entries) {
		if _, err := tx.ExecContext(ctx, notifySQL, j.channel()); err != nil {
			return nil, j.db.wrap("enqueue", err)
		}
	}
	return inTransaction(receipts), nil
}

// enqueueSQL inserts entries and fills in their receipts.
func (j *Jobs) enqueueSQL(ctx context.Context, tx *sql.Tx, entries []entry, receipts []job.Receipt) error {
	firsts, repeated := divide(entries, receipts)
	store := func(part columns) error {
		rows, err := tx.QueryContext(ctx, j.db.hot(enqueueUniqueSQL), literals(part.arguments())...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		return part.read(rows, repeated, receipts)
	}
	if firsts.keys == 0 {
		store = func(part columns) error {
			_, err := tx.ExecContext(ctx, j.db.hot(enqueueSQL), literals(part.arguments())...)
			return err
		}
	}
	for part := range firsts.parts() {
		if err := store(part); err != nil {
			return err
		}
	}
	return nil
}

// announce reports whether the transaction should announce its jobs itself. If the process has just announced other jobs, its
// next announcement covers these; if the transaction takes longer than that, workers find the jobs by polling.
func (j *Jobs) announce(entries []entry) bool {
	if !anyDue(entries) {
		return false
	}
	if j.bell.first() {
		return true
	}
	j.bell.wake()
	return false
}

func inTransaction(receipts []job.Receipt) []job.Receipt {
	for i := range receipts {
		if !receipts[i].Existed {
			receipts[i].Durability = job.InTransaction
		}
	}
	return receipts
}

// CompleteTx completes a job as part of its handler's transaction, so that the job's completion and what the handler wrote
// are stored together or not at all. The lease is the one of the job that the handler got. CompleteTx returns ErrNotFound,
// ErrNotRunning, ErrLeaseExpired or ErrFenced when the lease is lost: roll back then and return the error. When the handler
// returns nil after its commit, the worker's own completion repeats this one and changes nothing.
func (j *Jobs) CompleteTx(ctx context.Context, tx pgx.Tx, lease job.Lease) error {
	if tx == nil {
		return errNoTx
	}
	var settled []int
	ready, gated := false, false
	list := []job.Settlement{{Ref: lease.Ref(), Kind: job.KindComplete, Reason: policy.ReasonSuccess}}
	if err := tx.QueryRow(ctx, j.db.hot(completeSQL), completionColumns(list)...).Scan(&settled, &ready, &gated, new(any)); err != nil { // none is cancelled
		return j.db.wrap("complete", err)
	}
	if len(settled) == 1 {
		if ready || gated {
			_, err := tx.Exec(ctx, notifySQL, j.channel())
			return j.db.wrap("complete", err)
		}
		return nil
	}
	var state leaseState
	if err := tx.QueryRow(ctx, j.db.hot(judgeSQL), judgedColumns(lease)...).Scan(state.targets()...); err != nil {
		return j.db.wrap("complete", err)
	}
	return state.err()
}

func judgedColumns(lease job.Lease) []any {
	ids, fences := refColumns([]job.Ref{lease.Ref()})
	return []any{ids, fences, []string{string(job.KindComplete)}}
}

// literals writes columns as text, which every driver passes on unchanged.
func literals(columns []any) []any {
	texts := make([]any, len(columns))
	for i, c := range columns {
		switch c := c.(type) {
		case []pgtype.UUID:
			texts[i] = literal(c, func(v pgtype.UUID) (string, bool) { return v.String(), v.Valid })
		case []string:
			texts[i] = literal(c, func(v string) (string, bool) { return v, true })
		case []pgtype.Text:
			texts[i] = literal(c, func(v pgtype.Text) (string, bool) { return v.String, v.Valid })
		case [][]byte:
			texts[i] = literal(c, func(v []byte) (string, bool) { return fmt.Sprintf(`\x%x`, v), v != nil })
		case []pgtype.Timestamptz:
			texts[i] = literal(c, timestamp)
		case []pgtype.Int2:
			texts[i] = literal(c, small)
		case []int16:
			texts[i] = literal(c, number[int16])
		case []int32:
			texts[i] = literal(c, number[int32])
		case []int64:
			texts[i] = literal(c, number[int64])
		}
	}
	return texts
}

func timestamp(v pgtype.Timestamptz) (string, bool) {
	if v.InfinityModifier == pgtype.NegativeInfinity {
		return "-infinity", v.Valid
	}
	return v.Time.Format(time.RFC3339Nano), v.Valid
}

func small(v pgtype.Int2) (string, bool) { return strconv.Itoa(int(v.Int16)), v.Valid }

func number[T any](v T) (string, bool) { return fmt.Sprint(v), true }

// literal returns an array in PostgreSQL's text form; an element is NULL if text returns false for it.
func literal[T any](list []T, text func(T) (string, bool)) string {
	var b strings.Builder
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	b.WriteByte('{')
	for i, v := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		s, valid := text(v)
		if !valid {
			b.WriteString("NULL")
			continue
		}
		b.WriteByte('"')
		b.WriteString(escape.Replace(s))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}
