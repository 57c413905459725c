// Package decision is the core of Tenet: pure functions that say what a result means and what happens next. Calls, jobs,
// pipelines and the replay of audit logs use the same functions. They do not read a clock, draw random numbers or do I/O:
// given the same policy, state and seed, the answer is the same on every machine and at any later time. Arguments are passed by
// pointer because copying them would take longer than the decision; they are neither changed nor kept.
//
// # The model
//
//   - [Judge] turns the [Facts] of an ended attempt into an outcome, and names the [Rule] that decided.
//   - [Group] folds the outcomes of a hedged group of attempts into one.
//   - [Next] turns an outcome and the [State] of the work into a [Verdict]: done, retry after a delay, or stop.
//   - [Delay] computes the delay before a retry. Its jitter comes from a counter-based generator keyed by a seed and the
//     retry's index; [Seed] derives the seed from the work's ID. Different work spreads out, the same work repeats exactly.
//
// testdata/vectors.json pins judgements and delays in integer nanoseconds for implementations in other languages.
package decision
