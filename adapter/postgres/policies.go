package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/internal/policysql"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
)

// Policies is the database's policy store: the contract is policystore.Store. All calls return the same one.
func (db *DB) Policies() policystore.Store { return db.policies }

// policyEngine runs the statements of policysql, each step in a transaction of its own.
type policyEngine struct{ db *DB }

// Read implements policysql.Engine.
func (e policyEngine) Read(ctx context.Context, what string, f func(policysql.Tx) error) error {
	return e.run(ctx, what, pgx.TxOptions{AccessMode: pgx.ReadOnly}, f)
}

// Write implements policysql.Engine.
func (e policyEngine) Write(ctx context.Context, what string, f func(policysql.Tx) error) error {
	return e.run(ctx, what, pgx.TxOptions{}, f)
}

func (e policyEngine) run(ctx context.Context, what string, o pgx.TxOptions, f func(policysql.Tx) error) error {
	if err := e.Open(ctx); err != nil {
		return err
	}
	err := retryAborted(ctx, func() error {
		return pgx.BeginTxFunc(ctx, e.db.pool, o, func(tx pgx.Tx) error { return f(policyTx{ctx, tx, e.db.schema}) })
	})
	err = e.db.wrap("policies: "+what, err)
	if errors.Is(err, job.ErrClosed) {
		return fmt.Errorf("%w (%w)", policystore.ErrClosed, err)
	}
	return err
}

// Now implements policysql.Engine.
func (policyEngine) Now() string { return `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint` }

// SkipLocked implements policysql.Engine.
func (policyEngine) SkipLocked() string { return ` FOR UPDATE SKIP LOCKED` }

// Open implements policysql.Engine.
func (e policyEngine) Open(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("postgres: policies: %w", err)
	}
	if e.db.closed.Load() {
		return policystore.ErrClosed
	}
	return nil
}

type policyTx struct {
	ctx    context.Context
	tx     pgx.Tx
	schema string // quoted
}

var policyParameter = regexp.MustCompile(`\?(\d+)`)

// text puts the schema and PostgreSQL's parameters into a statement.
func (t policyTx) text(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "{{", t.schema+".policy_"), "}}", "")
	return policyParameter.ReplaceAllString(s, `$$$1`)
}

// Exec implements policysql.Tx.
func (t policyTx) Exec(text string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(t.ctx, t.text(text), args...)
	return tag.RowsAffected(), err
}

// ExecMany implements policysql.Tx in one round trip.
func (t policyTx) ExecMany(text string, rows [][]any) error {
	b := &pgx.Batch{}
	text = t.text(text)
	for _, args := range rows {
		b.Queue(text, args...)
	}
	return t.tx.SendBatch(t.ctx, b).Close()
}

// Query implements policysql.Tx.
func (t policyTx) Query(q policysql.Query, each func() error) error {
	rows, _ := t.tx.Query(t.ctx, t.text(q.Text), q.Args...)
	_, err := pgx.ForEachRow(rows, q.Targets, each)
	return err
}
