// Package hedge decides when an attempt is slow enough to start another beside it, and how many such hedges a key may
// cost. It starts nothing itself.
//
// # The model
//
// A [Trigger] says how long to wait for an attempt before hedging it: after the policy's own delay ([Fixed]), after a
// set latency ([After]), or when the attempt is slower than most were ([Percentile]). The last one asks the key's
// [Digest], a histogram of the latencies of successful attempts in which old ones fade. [Load] is the key's account of
// hedges and calls; it keeps hedges below the policy's max_extra_load.
//
// Tail latency is where this pays: with p95 about one call in twenty is hedged and takes the faster of two answers
// (J. Dean, L. A. Barroso: The Tail at Scale, Communications of the ACM 56(2), 2013). Failures must not feed the digest: a
// server that refuses quickly would look fast.
//
// # Writing a trigger
//
// Implement [Trigger] and give it to the executor under the name that policies use. Delay runs for every hedged call: it
// must not block and must be safe for concurrent use. A trigger that does not use the digest has a method NeedsDigest that
// returns false; then no digest is kept, and Delay is called with nil.
package hedge
