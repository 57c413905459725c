// Package testguard runs the same table of scenarios through every use of an idempotency guard (an entrance): a call, a job, a
// transaction of a pipeline, a request to an HTTP server and an operation of NATS must leave the same record, report the same
// reason, and return the same status if they have one.
//
// The package of each entrance runs the table in its own tests:
//
//	testguard.Run(t, testguard.Entrance{Results: true, Errors: true, Ask: func(ctx context.Context, c testguard.Call) testguard.Answer { … }})
package testguard
