// Package hedge decides when an attempt is slow enough to start another one (a hedge), and how many hedges a key may have. It
// does not start attempts itself.
//
// # The model
//
// A [Trigger] says how long to wait for an attempt before hedging it: after the policy's own delay ([Fixed]), after a
// fixed latency ([After]), or when the attempt is slower than most others ([Percentile]). Percentile reads the key's [Digest], a
// histogram of the latest latencies of successful attempts. [Load] counts the key's hedges and calls, and keeps hedges below the
// policy's max_extra_load.
//
// Hedging reduces tail latency: with p95, about one call in twenty is hedged and takes the faster of two answers
// (J. Dean, L. A. Barroso: The Tail at Scale, Communications of the ACM 56(2), 2013). Failures must not feed the digest: a
// server that refuses quickly would look fast.
//
// # Writing a trigger
//
// Implement [Trigger] and give it to the executor under the name that policies use. Delay runs for every hedged call: it
// must not block and must be safe for concurrent use. A trigger that does not use the digest has a method NeedsDigest that
// returns false; then no digest is kept, and Delay is called with nil.
package hedge
