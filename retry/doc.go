// Package retry runs operations under policies: it is the only place where the mechanisms (budgets, breakers, limits, hedges,
// timeouts, backoff) meet.
//
// # The model
//
// An [Executor] looks a policy up by key, prepares it once per version, and runs attempts:
//
//	admit → run → classify → settle → decision.Next → wait → admit …
//
// Admission asks the breaker, then the budget, then the limit. Only the limit may make an attempt wait, and only if its policy
// has a max_wait. Package classify says what the result means, and package decision says what
// follows. An unhedged attempt runs on the caller's goroutine. With hedging on, each attempt of a group runs on its own
// goroutine, and a coordinator on the caller's goroutine decides. The contexts of losers are cancelled, and
// [Executor.Wait] waits until they have returned.
//
// Every failure is an [*Error] that carries the last error of the operation and the reason for stopping. Observed or not,
// a call takes the same path: the only difference is whether it has a recorder.
//
// # What it does not do
//
// Timeouts are cooperative: an operation that ignores its context is not interrupted, only reported. Nothing here makes
// an operation safe to repeat; see package idempotency.
package retry
