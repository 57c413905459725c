// Package demo runs "tenet demo": real HTTP deliveries as stored jobs to an endpoint with scheduled faults ([Run]).
//
// # The model
//
// The endpoint listens on a loopback port. Its behaviour is a pure function of the seed, the delivery's ID and the number of
// the request for that delivery ([Schedule]): it answers, fails, throttles, hangs, is slow, or resets the connection.
//
// The deliveries are imported into a store, and worker processes deliver them under a policy document with a retry ratio and a
// breaker for each destination. One worker is killed halfway and another one started. [Report] compares the store with the
// endpoint's ledger: every delivery has arrived or is in the dead-letter queue for a reason, and the number of requests that
// the endpoint counted is within the document's bound.
//
//	deliveries ──import──► store ◄──► worker, worker ✗, worker ──► endpoint (schedule)
//	                         └───────► Report ◄──────── ledger ───────┘
//
// No traffic leaves the machine: all connections go to the endpoint, whatever the URL of a delivery.
package demo
