// Package memory keeps everything in the memory of one process: for tests, for development, and for work that may be gone
// with the process. It links nothing outside Tenet.
//
// # The model
//
// [Open] returns a [DB]. [DB.Jobs] is its job store, which keeps the whole contract of job.Store and passes the suite of
// package storetest. Jobs are records in a map. Each is also in one ordered structure according to its state: the line of
// its queue, whose head is claimed at a cost that does not depend on the length, or the heap of scheduled jobs, of leases or
// of finished jobs. Only inspection (List, Stats, Change by filter) goes through all jobs.
//
// [DB.Idempotency] keeps the records of idempotency.Guard in a map by the hash of their ID. Those that expire are also in a
// line with others of a similar time to live.
//
// The clock is package time's, so tests in a testing/synctest bubble run in virtual time. The store starts no goroutines.
// Receipts say job.InMemory.
package memory
