// Package circuit stops calling what keeps failing. A [Breaker] stands in front of the attempts of one key and, by what
// they end in, lets further ones through or refuses them.
//
// # The model
//
// Every attempt goes through the breaker in two steps:
//
//	ticket, transition, ok := breaker.Acquire(now, hedge)   // may it start?
//	...                                                     // the attempt, if ok
//	transition = breaker.Done(ticket, result, took, now)    // what became of it
//
// Done is called exactly once for each ticket, however the attempt ended, and also if it was never launched. A closed
// breaker lets everything through and counts. What it counts is the policy's kind:
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
// Time is given by the caller: `now` is a reading of a monotonic clock since an epoch of the caller's choice, the same
// for all calls on a breaker. Nothing here reads a clock, starts a goroutine or allocates after [New].
package circuit
