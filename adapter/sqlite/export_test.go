package sqlite

import (
	"context"
	"database/sql"

	"github.com/tenetdev/tenet/job"
)

// InsertTx enqueues prepared inserts, with IDs that requests cannot have.
func (s *Jobs) InsertTx(ctx context.Context, tx *sql.Tx, list []job.Insert) ([]job.Receipt, error) {
	return s.insertTx(ctx, tx, list)
}
