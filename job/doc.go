// Package job runs durable work: jobs that live in a store, survive crashes and are retried under the same policies, by
// the same decision core, as calls. Only the wait differs: a job waits in the store until its run_at.
//
// # The model
//
// A [Definition] ties a type of job to its payload and its defaults. A [Client] enqueues. A [Worker] claims jobs under a lease
// with a fencing token, runs each attempt through retry.Executor.Once and settles its result. A [Store] keeps jobs; its clock
// decides whether a lease is valid.
//
//	             ┌──────────────── run_at in the future ◄───────────────┐
//	Enqueue ─► scheduled ──due──► ready ──Claim──► running ──Complete──► completed
//	                               ▲ ▲               │ │ ├──Retry, Snooze, Refuse──► scheduled (ready if due)
//	                               │ └──Release──────┘ │ ├──Dead────► dead: the dead-letter queue
//	                               └──lease expired────┘ └──Cancel──► cancelled
//	waiting, scheduled, ready ──cancel──► cancelled      all but running and waiting ──retry──► ready, attempts from 0 again
//
// A job is waiting while something other than its run_at stands between it and a claim, as its waits_for says. When that is over it is
// ready, or scheduled if its run_at is later.
//
// Delivery is at least once: an attempt whose lease has expired may still be running somewhere, so handlers must be safe to
// repeat. The store refuses the late result of such an attempt by its fencing token.
package job
