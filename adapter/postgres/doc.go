// Package postgres keeps jobs in PostgreSQL, version 14 or newer, for any number of processes on any number of machines.
//
// # The model
//
// [Open] connects a [DB], a pool of connections; [DB.Jobs] is its job store. All tables live in one schema, "tenet" by
// default, which `tenet migrate up` or [DB.Migrate] makes.
//
// A job's body is written once. Where the job stands is one narrow row that moves, in the same statement that writes the
// history; the row of a completed job also stands for the attempt that completed it:
//
//	Enqueue ─► scheduled ──Maintain──► ready ──Claim──► running ──Settle──► done
//	               ▲                     ▲                 │
//	               └──── delay > 0 ──────┴──── delay 0 ────┘
//
// Nothing that is hot is updated in place, so that an index over what is ready stays as small as what is ready. Claims
// lock with SKIP LOCKED and never wait for each other. Every operation is one round trip; several statements that belong
// together travel as one pipeline, which is one transaction. The server's clock decides everything.
//
// A call of Enqueue with more than 100 jobs, none of which has a unique key or a time to wait for, copies them (COPY).
// Concurrent calls of Enqueue with few jobs are stored together, in one statement and with one flush of the server's
// log. A call does not wait for others: what arrives while a statement runs goes with the next.
//
// # Waking workers
//
// [Jobs.Notify] listens on a connection of its own. New work is announced with NOTIFY at most once per 5 ms and process;
// a commit with NOTIFY waits for every other such commit, so that one for each job would cost most of the throughput. A
// wake-up that is lost, for example by a crash between a commit and its announcement, costs one poll interval of the
// worker. Behind PgBouncer in transaction mode notifications do not arrive: Notify finds out and returns [ErrNoNotify],
// and workers poll. There also add default_query_exec_mode=cache_describe to the URL unless PgBouncer is version 1.21 or
// newer.
//
// # Durability
//
// A receipt says fsynced or group_committed only if the server runs with fsync and synchronous_commit on; otherwise it
// says memory, since a crash of the server may lose what it has confirmed.
package postgres
