// Package sqlite keeps jobs in one SQLite file, for any number of processes on one machine, without cgo and without a
// server.
//
// # The model
//
// [Open] opens a file as a [DB]; [DB.Jobs] is its job store, which keeps the whole contract of job.Store and passes the
// suite of package storetest. A job is one row of tenet_job, and lies in exactly one partial index according to its state,
// so that the cost of a claim does not grow with the backlog:
//
//	Enqueue ─► scheduled ──due──► ready ──Claim──► running ──Settle──► completed, dead, cancelled
//	(run_at)                      (queue, priority,  (lease_until)      (state, finished_at)
//	                               run_at, id)
//
// Transitions are the pure functions of package job: rows are read, moved and written back in bulk. The one that most jobs
// go through, completion without output, is a single statement for a whole group, and has no row in the history: the job's
// own row tells of that attempt.
//
// # Group commit
//
// All writes of a DB go through one goroutine with one connection. It takes every operation that waits, runs them as one
// transaction and commits, so that one flush to the disk serves all of them; nothing waits for company, the next group
// gathers while one is written. An operation that fails takes nothing else with it. Reading goes past the writer, over
// pooled connections.
//
// Writers of other processes are met by trying again for [Options].BusyTimeout, then [ErrBusy]. A process may be killed at
// any moment: its transaction is undone by whoever opens the file next, and what was acknowledged stays.
//
// # Durability
//
// With synchronous=FULL, the default, a commit is flushed before it is acknowledged and receipts say
// job.GroupCommitted. With [Normal] they say [OSBuffered].
//
// # The caller's own transactions
//
// The file may hold the caller's tables beside Tenet's, whose names begin with tenet_. [DB.BeginTx] begins a transaction on
// it; [Jobs.EnqueueTx] and [Jobs.CompleteTx] join jobs to whatever else it writes.
//
// # Waking workers
//
// [Jobs.Notify] tells at once of work that this DB stored, and looks every 50 ms, while somebody listens, whether other
// processes or transactions have changed the file.
//
// # The clock
//
// The store's clock is this process's time.Now, truncated to microseconds; the processes on a file share one machine and
// so its clock.
package sqlite
