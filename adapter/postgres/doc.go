// Package postgres keeps jobs in PostgreSQL, version 14 or newer, for any number of processes on any number of machines.
//
// # The model
//
// [Open] connects a [DB], a pool of connections; [DB.Jobs] is its job store. All tables live in one schema, "tenet" by
// default, which `tenet migrate up` or [DB.Migrate] makes.
//
// A job's body is written once. Its state is one narrow row, which the statement that writes the history moves from table to
// table; the row of a completed job also describes the attempt that completed it:
//
//	Enqueue ─► scheduled ──Maintain──► ready ──Claim──► running ──Settle──► done
//	               ▲                     ▲                 │
//	               └──── delay > 0 ──────┴──── delay 0 ────┘
//
// Rows of frequent operations are never updated in place, so the index of ready jobs stays as small as their number. Claims
// lock with SKIP LOCKED and never wait for each other. Every operation is one round trip; statements that belong together are
// sent as one pipeline, which is one transaction. The server's clock decides all times.
//
// A call of Enqueue with more than 100 jobs, none with a unique key or a run_at, copies them (COPY). Concurrent calls of
// Enqueue with few jobs are stored together, in one statement and with one flush of the server's log. A call does not wait
// for others: calls that arrive while a statement runs share the next.
//
// # Waking workers
//
// Workers in the same process, on the same DB, are woken directly after the commit. For other processes [Jobs.Notify] listens on a
// connection of its own. New work is announced at most once per 5 ms and process: a commit with NOTIFY waits for every other such
// commit, so one for each job would cost most of the throughput. A lost announcement, for example by a crash right after the commit,
// delays a job by one poll interval of the worker. Behind PgBouncer in transaction mode notifications do not arrive: Notify detects
// that and returns [ErrNoNotify], and workers poll for all work, also that of their own process.
// With PgBouncer older than 1.21, also add default_query_exec_mode=cache_describe to the URL.
//
// # Durability
//
// A receipt says fsynced or group_committed only if the server runs with fsync and synchronous_commit on; otherwise it
// says memory, since a crash of the server may lose confirmed writes.
package postgres
