package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/internal/groupcommit"
	"github.com/tenetdev/tenet/internal/wait"
	"github.com/tenetdev/tenet/job"
)

// Jobs is a job store in PostgreSQL. It is safe for concurrent use, by any number of processes.
type Jobs struct {
	db      *DB
	durable bool // the server flushes writes before it confirms them
	flusher *flusher
	notices
	cursors cursors
	claims  sync.Map // texts of claims, by claimText
	due     sweep    // of scheduled jobs
	expired sweep    // of leases
	limits  limited

	promotes atomic.Bool                      // the last claim found due jobs, so the next one promotes without looking
	tends    groupcommit.Queue[chan struct{}] // callers of tendSoon and tendLater
	hurry    wait.Signal                      // ends the pause in which settlements gather
}

var (
	_ job.Store    = (*Jobs)(nil)
	_ job.Admin    = (*Jobs)(nil)
	_ job.Notifier = (*Jobs)(nil)
	_ job.Elector  = (*Jobs)(nil)
	_ job.Registry = (*Jobs)(nil)
	_ job.Relay    = (*Jobs)(nil)

	_ job.SettingStore = (*Jobs)(nil)
	_ job.Searcher     = (*Jobs)(nil)
	_ job.Indexer      = (*Jobs)(nil)
	_ job.Finisher     = (*Jobs)(nil)

	_ job.CancelNotifier = (*Jobs)(nil)
)

func newJobs(db *DB, durable bool) *Jobs {
	j := &Jobs{db: db, durable: durable, hurry: wait.NewSignal()}
	j.mark = newMark()
	j.life, j.end = context.WithCancel(context.Background())
	j.flusher = newFlusher(func(ctx context.Context, entries []entry) ([]job.Receipt, error) { return j.store(ctx, entries, false) })
	j.tends.Limit, j.tends.Commit = maxTendFor, j.tendFor
	j.bell.near, j.bell.far = j.ring, j.notify
	return j
}

// Close closes the DB that the store belongs to.
func (j *Jobs) Close() error { return j.db.Close() }

// stop waits for the background goroutines.
func (j *Jobs) stop() {
	j.flusher.close()
	j.hurry.Send()
	j.tends.Close()
	j.bell.stop()
	j.cancels.Close()
	j.end()
}

// steady pins the plans of a transaction to the indexes. Backlogs change faster than statistics, and a plan that was cached
// while a table was small would later read and sort the whole table. Compilation is never worthwhile for these statements.
//
// A table that drains has no rows by its statistics, however many come afterwards. Reading all of it for each row of another table then
// seems to cost nothing. Statements join such tables on id = ANY (ARRAY[x]), for which the server can only look up x in the index. Where an
// index has all columns that are read, or matches another condition, it could still read all of it: there, a subquery with OFFSET 0 looks up x.
const steady = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)`

// uncompiled is the last part of steady alone, for statements that store many jobs.
const uncompiled = `SELECT set_config('jit', 'off', true)`

func steadyBatch() *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue(steady)
	return b
}

// Lead implements job.Elector.
func (j *Jobs) Lead(ctx context.Context, worker string, ttl time.Duration) (bool, error) {
	if err := job.CheckLease(ttl); err != nil {
		return false, err
	}
	b := &pgx.Batch{}
	leads := false
	b.Queue(j.db.sql(`
INSERT INTO {{schema}}.leader AS l (role, worker, until)
VALUES ('jobs', $1, statement_timestamp() + $2::bigint * interval '1 microsecond')
ON CONFLICT (role) DO UPDATE SET worker = excluded.worker, until = excluded.until
WHERE l.worker = excluded.worker OR l.until <= statement_timestamp()
RETURNING true`), worker, ttl.Microseconds()).Query(func(rows pgx.Rows) error {
		leads = rows.Next()
		return nil
	})
	err := j.db.run(ctx, "lead", b)
	return leads, err
}
