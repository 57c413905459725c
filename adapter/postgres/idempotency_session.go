package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenetdev/tenet/job"
)

// session runs single statements: each as a transaction of its own, or all in the caller's.
type session interface {
	// row scans the first row, if there is one.
	row(ctx context.Context, into []any, text string, args ...any) (found bool, err error)
	exec(ctx context.Context, text string, args ...any) (changed int64, err error)
}

// pgxSession is a pool or a transaction of pgx.
type pgxSession struct {
	q interface {
		QueryRow(ctx context.Context, text string, args ...any) pgx.Row
		Exec(ctx context.Context, text string, args ...any) (pgconn.CommandTag, error)
	}
}

func (s pgxSession) row(ctx context.Context, into []any, text string, args ...any) (bool, error) {
	return one(s.q.QueryRow(ctx, text, args...).Scan(into...))
}

func (s pgxSession) exec(ctx context.Context, text string, args ...any) (int64, error) {
	tag, err := s.q.Exec(ctx, text, args...)
	return tag.RowsAffected(), err
}

// sqlSession is a transaction of database/sql.
type sqlSession struct{ tx *sql.Tx }

func (s sqlSession) row(ctx context.Context, into []any, text string, args ...any) (bool, error) {
	return one(s.tx.QueryRowContext(ctx, text, args...).Scan(into...))
}

func (s sqlSession) exec(ctx context.Context, text string, args ...any) (int64, error) {
	result, err := s.tx.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// one reports whether there was a row, and returns any other error.
func one(err error) (found bool, _ error) {
	if errors.Is(err, sql.ErrNoRows) { // pgx's own is the same
		return false, nil
	}
	return err == nil, err
}

// repeated is a session without a transaction that repeats a statement which the server aborted.
type repeated struct{ pgxSession }

func (s repeated) row(ctx context.Context, into []any, text string, args ...any) (found bool, err error) {
	err = retryAborted(ctx, func() (err error) {
		found, err = s.pgxSession.row(ctx, into, text, args...)
		return err
	})
	return found, err
}

// pinned runs a statement with its plan pinned to the indexes, in the same round trip, and repeats it if the server aborted it.
type pinned struct{ db *DB }

func (s pinned) row(ctx context.Context, into []any, text string, args ...any) (found bool, err error) {
	err = s.db.batch(ctx, text, args, func(q *pgx.QueuedQuery) {
		q.QueryRow(func(r pgx.Row) (err error) {
			found, err = one(r.Scan(into...))
			return err
		})
	})
	return found, err
}

func (s pinned) exec(ctx context.Context, text string, args ...any) (changed int64, err error) {
	err = s.db.batch(ctx, text, args, func(q *pgx.QueuedQuery) {
		q.Exec(func(tag pgconn.CommandTag) error {
			changed = tag.RowsAffected()
			return nil
		})
	})
	return changed, err
}

func (db *DB) batch(ctx context.Context, text string, args []any, take func(*pgx.QueuedQuery)) error {
	if db.closed.Load() {
		return job.ErrClosed
	}
	return retryAborted(ctx, func() error {
		b := steadyBatch()
		take(b.Queue(text, args...))
		return db.pool.SendBatch(ctx, b).Close()
	})
}
