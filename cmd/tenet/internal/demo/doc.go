// Package demo runs "tenet demo": real HTTP deliveries to an endpoint with scheduled faults, as stored jobs ([RunJobs]) or as
// calls ([Run]).
//
// # The model
//
// The endpoint listens on a loopback port. Its behaviour is a pure function of the seed, the delivery's ID and the number of
// the request for that delivery ([Schedule]): it answers, fails, throttles, hangs, is slow, or resets the connection. The
// deliveries are sent through a retry.Executor under a policy document with a retry ratio, hedging and a breaker for each
// destination. [Report] lists what was delivered, what was not and why, and whether the number of requests that the endpoint
// counted is within the document's bound.
//
//	deliveries ──► N at a time ──► tenethttp ──► endpoint (schedule)
//	                                  └──► timelines ──► Report ◄── the endpoint's counts
//
// As jobs, the deliveries are imported into a store, and worker processes deliver them. One worker is killed halfway and
// another one started. [JobsReport] compares the store with the endpoint's ledger: every delivery has arrived or is in the
// dead-letter queue for a reason.
//
//	deliveries ──import──► store ◄──► worker, worker ✗, worker ──► endpoint
//	                         └───────► JobsReport ◄───── ledger ─────┘
//
// Calls have the IDs of their deliveries, so that the same seed gives the same faults and the same waits. Shared state
// (budget, breakers, latencies) depends on the order of calls and may differ between runs.
//
// No traffic leaves the machine: all connections go to the endpoint, whatever the URL of a delivery.
package demo
