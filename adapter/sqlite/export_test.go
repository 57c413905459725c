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

// Statements returns how many statements the most recently used free reader has prepared.
func (s *Jobs) Statements() int {
	r := s.db.readers.take()
	defer s.db.readers.give(r)
	return len(r.statements)
}
