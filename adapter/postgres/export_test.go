package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/job"
)

// InsertTx and InsertSQL enqueue prepared inserts, with IDs and values that requests cannot have.

func (j *Jobs) InsertTx(ctx context.Context, tx pgx.Tx, list []job.Insert) ([]job.Receipt, error) {
	return j.insertTx(ctx, tx, list)
}

func (j *Jobs) InsertSQL(ctx context.Context, tx *sql.Tx, list []job.Insert) ([]job.Receipt, error) {
	return j.insertSQL(ctx, tx, list)
}
