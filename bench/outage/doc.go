// Package outage simulates retry budgets during an outage.
//
// It runs calls through each budget on a virtual clock, as a discrete-event simulation: calls arrive at random (a Poisson
// process), an attempt takes [Latency] and fails with a given probability, a call makes up to [MaxAttempts] attempts with
// the same backoff between them. The simulation neither waits nor starts goroutines, so that a minute of a thousand calls per
// second takes a moment and always has the same result. Every budget gets the same arrivals and the same faults: whether an
// attempt fails depends only on the numbers of its call and of the attempt.
//
// The budgets of Tenet, failsafe-go and avast/retry-go are the libraries' own objects, asked when the libraries ask them. The
// budgets of Finagle and gRPC are rebuilt from their published arithmetic.
package outage
