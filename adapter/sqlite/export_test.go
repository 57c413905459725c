package sqlite

import (
	"context"
	"database/sql"

	"github.com/tenetdev/tenet/job"
)

// InsertTx is EnqueueTx for jobs whose IDs the test chooses.
func (s *Jobs) InsertTx(ctx context.Context, tx *sql.Tx, list []job.Insert) ([]job.Receipt, error) {
	return s.insertTx(ctx, tx, list)
}
