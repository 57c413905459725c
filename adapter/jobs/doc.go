// Package jobs connects pipelines and jobs: a sink enqueues transactions as jobs, and a source delivers the jobs of a queue as
// transactions.
//
// # The model
//
//	consumer ── attempts spent ──► Sink ──► job ──► a worker's handler ([FromJob])
//	                                         └────► Source ──► consumer
//
// As the dead-letter sink of a consumer a [Sink] escalates: a transaction whose attempts are exhausted continues as a job,
// which survives crashes, may wait for hours, and can be inspected, retried and cancelled by operators. The job has its
// type and the transaction's ID as its unique key, the transaction's payload, and in its meta the rest of the transaction, with the
// number of attempts made; [SinkOptions].Retry subtracts those from its maximum and continues with the wait that follows them.
//
// A [Source] leases jobs of a queue and settles them as a worker does:
//
//	acknowledged                                          completed
//	given back, never tried or not finished               ready again, no attempt used up
//	given back after a failure, attempts are left         scheduled again after the delay
//	given back after an error that is not retryable,
//	or after the last attempt                             dead
//
// # Limits
//
// The store counts the attempts of a job from 0: attempts from before are in its meta and, through SinkOptions.Retry, in its
// maximum. The count of a delivery is the number of attempts used up, plus 1, so that the waits between deliveries are those
// between attempts: they start over when an operator retries the job, and a delivery that was given back without an attempt does
// not make them longer. An operator's cancellation is noticed when a delivery is given back, not while it runs.
package jobs
