// Package crashtest holds a test of real crashes: worker processes that share a store are killed and frozen at random
// moments while they write down what they do.
//
// # The model
//
//	enqueue ──► store ◄──► worker processes (this test binary again) ──► ledgers, one file each
//	                              ▲                                         │
//	       SIGKILL, SIGSTOP+CONT ─┘          audit ◄── store's history ◄────┘
//
// A ledger line is written before and after each operation on a lease, so that it survives the process. At the end the audit
// asks: have all jobs completed or died, was any job claimed while the lease before was live, has any job completed under two
// tokens, were late results refused? It also asks whether the faults happened at all.
package crashtest
