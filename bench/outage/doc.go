// Package outage shows what retry budgets do while the other side fails.
//
// It runs calls through each budget on a virtual clock, as a discrete-event simulation: calls arrive at random (a Poisson
// process), an attempt takes [Latency] and fails with a given probability, a call makes up to [MaxAttempts] attempts with
// the same backoff between them. Nothing waits and no goroutine runs, so that a minute of a thousand calls per second
// takes a moment and comes out the same every time. Every budget meets the same arrivals and the same luck: whether an
// attempt fails depends on the number of its call and its own, and on nothing else.
//
// Tenet's, failsafe-go's and avast/retry-go's budgets are the libraries' own objects, asked at the moments at which the
// libraries ask them. Those of Finagle and gRPC are rebuilt from their published arithmetic.
package outage
