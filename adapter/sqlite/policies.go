package sqlite

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/tenetdev/tenet/internal/policysql"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policystore"
)

// Policies is the file's policy store: the contract is policystore.Store. All calls return the same one.
func (db *DB) Policies() policystore.Store { return db.policies }

// policyEngine runs the statements of policysql: what writes takes the writer, what reads a reader.
type policyEngine struct{ db *DB }

// Read implements policysql.Engine.
func (e policyEngine) Read(ctx context.Context, what string, f func(policysql.Tx) error) error {
	return policyError(e.db.jobs.view(ctx, "policies: "+what, func(q querier) error { return f(policyTx{q}) }))
}

// Write implements policysql.Engine.
func (e policyEngine) Write(ctx context.Context, what string, f func(policysql.Tx) error) error {
	return policyError(e.db.jobs.write(ctx, "policies: "+what, func(q querier) error { return f(policyTx{q}) }))
}

// Now implements policysql.Engine.
func (policyEngine) Now() string { return `CAST(unixepoch('subsec') * 1000000 AS INTEGER)` }

// SkipLocked implements policysql.Engine.
func (policyEngine) SkipLocked() string { return "" }

// Open implements policysql.Engine.
func (e policyEngine) Open(ctx context.Context) error { return policyError(e.db.jobs.check(ctx)) }

type policyTx struct{ querier }

// Exec implements policysql.Tx.
func (t policyTx) Exec(text string, args ...any) (int64, error) {
	return t.update(policyTable(text), args...)
}

// ExecMany implements policysql.Tx.
func (t policyTx) ExecMany(text string, rows [][]any) error {
	text = policyTable(text)
	for _, args := range rows {
		if err := t.exec(text, args...); err != nil {
			return err
		}
	}
	return nil
}

// Query implements policysql.Tx.
func (t policyTx) Query(q policysql.Query, f func() error) error {
	return each(t.querier, selection{text: policyTable(q.Text), args: q.Args, into: q.Targets}, f)
}

var tableName = regexp.MustCompile(`\{\{(\w+)\}\}`)

// policyTable puts the names of tables into a statement.
func policyTable(text string) string { return tableName.ReplaceAllString(text, "tenet_policy_$1") }

// policyError turns the error of a closed DB into that of policy stores.
func policyError(err error) error {
	if errors.Is(err, job.ErrClosed) {
		return fmt.Errorf("%w (%w)", policystore.ErrClosed, err)
	}
	return err
}
