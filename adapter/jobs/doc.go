// Package jobs is the bridge between pipelines and jobs: a sink that makes jobs of transactions, and a source that hands out
// the jobs of a queue.
//
// # The model
//
//	consumer ── attempts spent ──► Sink ──► job ──► a worker's handler ([FromJob])
//	                                         └────► Source ──► consumer
//
// As the dead-letter sink of a consumer a [Sink] escalates: a transaction whose attempts are spent goes on as a job that
// survives crashes, waits for hours where it has to, and can be seen, retried and cancelled by operators. The job has the
// transaction's ID as its unique key, its payload, and in its meta all else that belongs to it, with the number of attempts
// that were spent; [SinkOptions].Retry subtracts those from its own and takes the wait that follows them.
//
// A [Source] leases jobs of a queue and settles them as a worker does:
//
//	acknowledged                                          completed
//	given back, never tried or not finished               ready again, no attempt used up
//	given back after a failure, attempts are left         scheduled again after the delay
//	given back after a business or permanent error,
//	or a failure with no attempts left                    dead
//
// # What it does not do
//
// The store counts the attempts of a job from 0: attempts from before are in its meta and, through SinkOptions.Retry, in its
// maximum. An operator's cancellation is noticed when a delivery is given back, not while it runs.
package jobs
