// Package memory keeps everything in the memory of one process: for tests, for development, and for work that may be gone
// with the process. It links nothing outside Tenet.
//
// # The model
//
// [Open] gives a [DB]; [DB.Jobs] is its job store, which keeps the whole contract of job.Store and passes the suite of
// package storetest. Jobs are records in a map; each also lies in one ordered place according to its state: the line of
// its queue, whose head is claimed at the same cost however long it is, or the heap of scheduled jobs, of leases, or of
// finished jobs. Only inspection (List, Stats, Change by filter) walks through all jobs.
//
// [DB.Idempotency] keeps the records of idempotency.Guard: in a map by the hash of their ID, and those that expire in a line
// with others that are kept about as long.
//
// The clock is that of package time, so that tests in a testing/synctest bubble run in virtual time. There are no
// goroutines. Receipts say job.InMemory.
package memory
