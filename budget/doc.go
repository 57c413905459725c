// Package budget bounds the load that repetition adds. A budget is asked before an attempt and allows or refuses it.
//
// # The model
//
// Many policies may name one budget (policy.BudgetRef: a name and the cost of an attempt), and all calls of the process
// under those policies share it. [Registry] finds a budget by its name. The executor asks it:
//
//   - before the first attempt of a call, with attempt index 0 and [KindRetry]; if it refuses, the operation does not run;
//   - when a retry is decided, before the wait, so that a refused caller does not wait in vain;
//   - before a hedge is launched, with [KindHedge]; a refused hedge never ends the call. A budget that only hedges use is told of each
//     call ([Earner]), because no first attempt asks it.
//
// The charge for an attempt is not given back, however the attempt ends. A budget of resources that an attempt holds, such
// as connections, sets [Decision.Release], which the executor calls exactly once for each allowed attempt.
//
//	budget       | first attempts  | retries and hedges | bound
//	Unlimited    | free            | free               | none
//	TokenBucket  | cost            | cost               | capacity + refill · seconds, over all attempts
//	RetryRatio   | free, earn ratio| cost               | ratio · calls + burst, over retries and hedges
//	Concurrency  | cost, in flight | cost, in flight    | limit attempts at a time
//
// Token buckets and retry ratios of shared scope spend a lot of tokens that processes share; see [NewSharedRegistry].
//
// Use [RetryRatio] unless there is a reason not to: it never refuses healthy traffic and, whatever the backoff or the
// latency, keeps an outage from multiplying the load.
//
// # Writing a budget
//
// Implement [Budget] and register it under the name that policies use:
//
//   - AllowAttempt runs on the path of every call. It must not block, be safe for concurrent use, and should not
//     allocate. The context is passed for its values only; waiting on it would delay the caller.
//   - Answer with [Allow] or [Deny], or fill a [Decision] to add a Release. Put text of your own into Detail: reasons
//     are a closed set.
//   - attemptIdx counts a call's attempts from 0 in the order of their launch, hedges included. Attempts may end in any
//     order. Index 0 with KindRetry is the first attempt: once per call.
//   - Charge ref.Cost, and treat a cost below 1 as 1 ([Cost] does that), or document that you ignore it.
//   - Implement [AtLaunch] too if an allowed attempt holds something until its Release: a retry is otherwise allowed
//     before its backoff and would hold it through the wait.
//   - Implement [Earner] too if calls fill it, so that it also earns where only hedges use it.
//   - Implement [Waiter] too if a refused attempt becomes possible by waiting alone: jobs are then put back for that long.
package budget
