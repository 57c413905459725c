// Package retry runs operations under policies: it is the only place where the mechanisms (budgets, breakers, hedges,
// timeouts, backoff) meet.
//
// # The model
//
// An [Executor] looks a policy up by key, prepares it once per version, and runs attempts:
//
//	admit → run → classify → settle → decision.Next → wait → admit …
//
// Admission asks the breaker and the budget. Classification says what the result means (package classify), package
// decision says what follows. An unhedged attempt runs on the caller's goroutine. With hedging on, a group of attempts
// runs on goroutines of its own and a coordinator on the caller's decides; losers end with their contexts, and
// [Executor.Wait] waits for them.
//
// Every failure is an [*Error] that carries the last error of the operation and the reason for stopping. Observed or not,
// a call takes the same path: the only difference is whether it has a recorder.
//
// # What it does not do
//
// Timeouts are cooperative: an operation that ignores its context is not interrupted, only reported. Nothing here makes
// an operation safe to repeat; see package idempotency.
package retry
