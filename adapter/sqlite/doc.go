// Package sqlite keeps jobs in one SQLite file, for any number of processes on one machine, without cgo and without a
// server.
//
// # The model
//
// [Open] opens a file as a [DB]; [DB.Jobs] is its job store, which keeps the whole contract of job.Store and passes the
// suite of package storetest. A job is one row of tenet_job and is in exactly one partial index, according to its state, so
// the cost of a claim does not grow with the backlog:
//
//	Enqueue ─► scheduled ──due──► ready ──Claim──► running ──Settle──► completed, dead, cancelled
//	(run_at)                      (queue, priority,  (lease_until)      (state, finished_at)
//	                               run_at, id)
//
// Transitions are the pure functions of package job: rows are read, changed and written back in bulk. The most frequent
// transition, completion without output, is a single statement for a whole group and adds no row to the history: the job's
// own row describes that attempt.
//
// # Group commit
//
// All writes of a DB go through one goroutine with one connection. It takes all waiting operations, runs them as one
// transaction and commits, so one flush to the disk serves all of them. It does not wait for a group to grow: the next group
// gathers while one is written. An operation that fails does not affect the others. Reads use pooled connections and do not
// wait for the writer.
//
// While another process writes, the writer tries again for [Options].BusyTimeout and then returns [ErrBusy]. A process may be
// killed at any moment: the next process to open the file undoes its open transaction, and acknowledged writes stay.
//
// # Durability
//
// With synchronous=FULL, the default, a commit is flushed before it is acknowledged and receipts say
// job.GroupCommitted. With [Normal] they say [OSBuffered].
//
// # The caller's own transactions
//
// The file may contain the caller's tables beside Tenet's, whose names begin with tenet_. [DB.BeginTx] begins a transaction;
// [Jobs.EnqueueTx] and [Jobs.CompleteTx] take part in it.
//
// # Waking workers
//
// [Jobs.Notify] signals work that this DB stored at once. While a caller listens, the DB also checks every 50 ms whether
// another process or transaction has changed the file.
//
// # The clock
//
// The store's clock is this process's time.Now, truncated to microseconds. All processes that use a file run on one machine
// and share its clock.
package sqlite
