package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"

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
