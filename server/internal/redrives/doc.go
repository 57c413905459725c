// Package redrives runs the redrives of a job store.
//
// One server leads at a time. Leadership only saves work: each step of a redrive is a transaction of the store, so that two
// leaders release each job once, and another server continues where the leader stopped.
package redrives
