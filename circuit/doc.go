// Package circuit holds circuit breakers, which stop calls to a service that keeps failing. A [Breaker] admits or refuses the
// attempts of one key, depending on the results of earlier ones.
//
// # The model
//
// Every attempt goes through the breaker in two steps:
//
//	ticket, transition, ok := breaker.Acquire(now, hedge)   // may it start?
//	...                                                     // the attempt, if ok
//	transition = breaker.Done(ticket, result, took, now)    // its result
//
// Done must be called exactly once for each ticket, however the attempt ended, even if it was never launched. A closed breaker
// admits every attempt and counts. The policy's kind says what it counts:
//
//	kind        | opens when                                                    | judged after
//	consecutive | `failures` attempts in a row failed                           | a failure
//	rate        | of at least minimum_calls in the window, failure_rate failed  | a failure
//	slow        | of at least minimum_calls in the window, slow_rate took longer| a slow attempt
//	            | than slow_after, whether or not they failed                   |
//
// An open breaker refuses everything until its cooldown is over. It is then half open: it lets `probes` attempts through
// at a time, and no hedges; as many successes close it, and one failure opens it again.
//
// The sliding window is ten buckets of a tenth of the window each, so that it covers between nine and ten tenths of it.
//
// A breaker of [NewShared] shares its openings, closings and probes with other processes, and counts in a window of its own.
//
// The caller supplies the time: `now` is a reading of a monotonic clock since an epoch of the caller's choice, which must be
// the same for all calls to a breaker. A breaker does not read a clock, start goroutines, or allocate after [New].
package circuit
