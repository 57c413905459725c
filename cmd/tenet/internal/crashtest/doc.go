// Package crashtest holds a test of real crashes: worker processes that share a store are killed and frozen at random
// moments while they log their operations.
//
// # The model
//
//	enqueue ──► store ◄──► worker processes (this test binary again) ──► ledgers, one file each
//	                              ▲                                         │
//	       SIGKILL, SIGSTOP+CONT ─┘          audit ◄── store's history ◄────┘
//
// A ledger line is written before and after each operation on a lease, so that it survives the process. At the end the audit
// checks that all jobs completed or died, that no job was claimed under a live lease, that no job ended under another than its last token, and
// that late results and extensions were refused. Two types of jobs have limits: the audit checks that no key ever had more live leases than its
// limit allows, and that jobs in strict order ran one after another, retries included. It also checks that the faults happened.
//
// The same workers run flows, and die while they settle jobs. The audit of flows checks that each job ended as its needs say, started after
// them, and ran again only after a lost lease.
package crashtest
