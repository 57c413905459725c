// Package pipeline runs engines that move transactions: a [Consumer] fetches them from a [Source] and has a [Task] process them,
// a [Producer] writes values to a [Sink]. Both follow a policy (policy.Consumer, policy.Producer), and run every step through
// the executor that calls and jobs use. Tasks, sources and sinks never see a policy.
//
// A task is a function from value to value, func(ctx, order) (receipt, error). Sources and sinks carry bytes; the engine
// decodes and encodes them by the task's types, as JSON unless the task has other codecs.
//
// # The model
//
//	          Consumer                                    Producer
//	fetch ─► buffer ─► worker                    input ─► chunk ─► worker
//	                     │                                           │
//	                  process ──value──► success                  produce ──► success
//	                     │ spent, Business │ spent                    │ spent     │ spent
//	                     └──────► exception ◄┘                        └► exception ◄┘
//
// Each step is retried under its own policy. The success step dispatches the result to the task's sink and calls its success
// handler. A step without attempts left, or with a business error, hands over to the exception step: the task's exception
// handler, then the dead-letter sink. Every delivery ends in exactly one outcome:
//
//	success     processed, and the success step succeeded                 acknowledged
//	exception   the exception was handled, or became a dead letter        acknowledged
//	failed      there was no handler, or it failed too                    given back after a delay
//	redelivered not finished: the engine stopped, or must not start it    given back at once
//
// A transaction is never processed again because its success step failed.
//
// # Concurrency
//
// A consumer fetches when its buffer is empty and a worker is free, so a slow transaction does not hold back others and the
// buffer holds less than a batch. Transactions in flight never exceed the policy's concurrency, even if operations ignore
// their contexts, and two with the same ID never run at the same time. Acknowledgements are grouped; deliveries that a
// source would take back are extended while they wait and run.
//
// # How a run ends
//
// The end of the input, the policy's limit, a fetch that failed for good, and Drain all end a run in the same way: the engine
// fetches nothing more and finishes the fetched transactions. After the policy's loop timeout or the end of Run's context,
// it cancels running transactions, waits for them up to the grace period ([WithGrace]), and gives unfinished ones back.
//
// # What it does not do
//
// Delivery is at least once: after a lost acknowledgement the source delivers the transaction again. [WithGuard] makes that
// harmless. Timeouts are cooperative; a task that ignores its context keeps its worker, and is reported as abandoned at the
// end.
package pipeline
