// Package demo is what "tenet demo" runs: real HTTP deliveries to an endpoint that misbehaves on schedule, as stored jobs
// ([RunJobs]) or as calls ([Run]).
//
// # The model
//
// The endpoint listens on a loopback port. What it does with a request is a pure function of the seed, the delivery's ID
// and how many times it has been asked for that delivery ([Schedule]): it answers, fails, throttles, hangs, is slow, or
// resets the connection. The deliveries are sent through a retry.Executor under a policy document with a retry ratio,
// hedging and a breaker for each destination. Afterwards [Report] says what was delivered, what was not and why, and
// whether the endpoint's own count of requests keeps the bound that the document promises.
//
//	deliveries ──► N at a time ──► tenethttp ──► endpoint (schedule)
//	                                  └──► timelines ──► Report ◄── the endpoint's counts
//
// As jobs, the deliveries are imported into a store, and workers in processes of their own deliver them. One is killed
// halfway and another one started. [JobsReport] compares what the store says with the endpoint's ledger: every delivery has
// arrived or is in the dead-letter queue for a reason.
//
//	deliveries ──import──► store ◄──► worker, worker ✗, worker ──► endpoint
//	                         └───────► JobsReport ◄───── ledger ─────┘
//
// Each call's ID is its delivery's, so that the same seed gives the same faults and the same waits. What calls share
// (budget, breakers, latencies) depends on their order and may differ from run to run.
//
// Nothing leaves the machine: whatever the URL of a delivery, connections are made to the endpoint.
package demo
