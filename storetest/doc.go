// Package storetest holds public conformance suites, one for each contract that a store implements. A store's own tests
// call the suite; users who write a store do the same.
//
// # The model
//
// [Jobs] checks a job.Store. Every case opens a store of its own, is a subtest named after the rule and the behaviour
// that it checks ("J7/a settled token may repeat itself"), so that `-run 'TestJobs/J7'` selects the cases of a rule, and
// ends with a check of what must hold at all times: no job lost, a lease exactly while running, attempts that agree with
// the history. Besides the cases there are random operations against a model made of the pure functions of package job,
// and a linearizability check of leases under real concurrency.
//
// [Idempotency] checks an idempotency.Store in the same way. Where processes share the store, it also starts processes: some
// compete for a key, some are killed at each point of an effect, and some are killed at random, whereupon the answers that all
// processes got must fit one order. Those processes call [IdempotencyProcess].
//
// [Limits] checks a sharing.Store, and through it budgets, breakers and limits that several simulated processes share;
// [LimitsInOutages] runs the cases in which the store is away against a server that the test stops.
//
// [Transactions] checks the methods of a database's stores that join a user's transaction, for jobs and idempotency records:
// what they wrote exists exactly when the transaction commits.
//
// Stores that take their time from package time run in virtual time (see [JobsOptions].Bubble), where the suite checks
// times to the microsecond. Other stores run in real time, with short leases.
package storetest
