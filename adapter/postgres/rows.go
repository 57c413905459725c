package postgres

import "github.com/jackc/pgx/v5"

// The error of a Query is that of its rows, too. What reads rows with pgx.CollectRows and the like therefore ignores it.

// collect puts the rows of a queued query into a list.
func collect[T any](q *pgx.QueuedQuery, list *[]T, row pgx.RowToFunc[T]) {
	q.Query(func(rows pgx.Rows) (err error) {
		*list, err = pgx.CollectRows(rows, row)
		return err
	})
}

// each scans every row of a queued query into targets and calls f.
func each(q *pgx.QueuedQuery, targets []any, f func() error) {
	q.Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, targets, f)
		return err
	})
}

// gather puts what the rows of a queued query leave in x, of which the targets are parts, into a list.
func gather[T any](q *pgx.QueuedQuery, targets []any, x *T, list *[]T) {
	each(q, targets, func() error {
		*list = append(*list, *x)
		return nil
	})
}
