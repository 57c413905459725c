// Package testguard holds every way into an idempotency guard against one table: a call, a job, a transaction of a pipeline, a
// request to an HTTP server and an operation of NATS must leave the same record, give the same reason, and answer with the
// same status where they have one.
//
// Each package of an entrance runs the table in its own tests:
//
//	testguard.Run(t, testguard.Entrance{Results: true, Errors: true, Ask: func(ctx context.Context, c testguard.Call) testguard.Answer { … }})
package testguard
