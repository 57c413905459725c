// Package memory keeps everything in the memory of one process: for tests, for development, and for work that may be gone
// with the process. It links nothing outside Tenet.
//
// # The model
//
// [Open] gives a [DB]; [DB.Jobs] is its job store, which keeps the whole contract of job.Store and passes the suite of
// package storetest. Jobs are records in a map; each lies in exactly one heap according to its state (ready jobs of its
// queue, scheduled jobs, leases, finished jobs by state), so that an operation costs the logarithm of what is stored and
// never a walk through a backlog. Only inspection (List, Stats, Change by filter) walks.
//
// The clock is that of package time, so that tests in a testing/synctest bubble run in virtual time. There are no
// goroutines. Receipts say job.InMemory.
package memory
