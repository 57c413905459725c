package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
)

// InsertTx is EnqueueTx for jobs whose IDs the test chooses.
func (j *Jobs) InsertTx(ctx context.Context, tx pgx.Tx, list []job.Insert) ([]job.Receipt, error) {
	return j.insertTx(ctx, tx, list)
}

// InsertTx is EnqueueTx for jobs whose IDs the test chooses.
func (s SQLJobs) InsertTx(ctx context.Context, tx *sql.Tx, list []job.Insert) ([]job.Receipt, error) {
	return s.jobs.insertSQL(ctx, tx, list)
}

// Swept makes the store believe that all jobs due before at are ready. The next sweep starts at the beginning anyway.
func (j *Jobs) Swept(at time.Time) {
	j.due.done(at)
	j.due.restart()
}

// PromoteNext makes the next claim promote without looking.
func (j *Jobs) PromoteNext() { j.promotes.Store(true) }

// ForgetEmpty removes the totals of queues without jobs, as maintenance does after it has removed jobs.
func (j *Jobs) ForgetEmpty(ctx context.Context) error { return j.forgetEmpty(ctx) }

// unwritten is a session that runs nothing.
type unwritten struct{}

func (unwritten) row(context.Context, []any, string, ...any) (bool, error) { return true, nil }
func (unwritten) exec(context.Context, string, ...any) (int64, error)      { return 0, nil }

// FlowParts returns how many jobs each statement stores of a flow, without storing it.
func (j *Jobs) FlowParts(f job.NewFlow) (parts []int, err error) {
	entries, err := prepareFlow(f)
	if err == nil {
		_, err = j.storeFlow(context.Background(), f, entries, flowWriter{unwritten{}, literals, func(part []entry) error {
			b := &pgx.Batch{}
			j.queue(b, part, "")
			parts = append(parts, jobsOf(b)...)
			return nil
		}})
	}
	return parts, err
}

// PlainParts returns how many jobs each statement stores of plain jobs, without storing them.
func (j *Jobs) PlainParts(list []job.Insert) ([]int, error) {
	entries, err := prepare(list)
	all, _ := divide(entries, make([]job.Receipt, len(entries)))
	b := &pgx.Batch{}
	j.queuePlain(b, all)
	return jobsOf(b), err
}

// jobsOf returns how many jobs each statement stores.
func jobsOf(b *pgx.Batch) (parts []int) {
	for _, statement := range b.QueuedQueries {
		parts = append(parts, len(statement.Arguments[0].([]pgtype.UUID)))
	}
	return parts
}
