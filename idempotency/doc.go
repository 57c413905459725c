// Package idempotency makes repetition safe: an effect that is asked for again under the same key does not happen again, and
// its caller gets the result of the first time.
//
// # The model
//
// A key names an effect: the sender's own ([CheckKey]), or one computed from the effect's parameters ([Parts]). Beside it
// stands a fingerprint of the request ([Fingerprint]), so that one key cannot stand for two requests. A [Store] keeps a
// [Record] for each key of a scope (tenant and operation). [Once] is the lifecycle of an effect under a [Guard]: it claims the
// record before the effect, keeps the claim live while the effect lasts, and records how it ended. Calls, jobs, pipelines and
// HTTP servers use it; [Guard.Do] and [DoValue] are short forms.
//
//	                        lease lapsed, replay-safe: claimed anew, fence+1
//	                                       ┌──┐
//	                   begin               │  ▼     complete
//	absent, expired ───────────────────► in flight ─────────────► completed ──┐
//	      ▲                               │ ▲ │ │   fail                      │
//	      │                     release   │ │ │ └───────────────► failed ─────┤
//	      │                    ┌──────────┘ │ │                               │
//	      │                    ▼      begin │ │ lease lapsed,                 │
//	      │                released ────────┘ │ not replay-safe               │
//	      │                    │              ▼                               │
//	      │                    │           unknown ── complete, fail, release: by its owner, who comes late,
//	      │                    │                      or by an operator (Resolve)
//	      └───── ttl over ─────┴──────────────────────────────────────────────┘
//
// The record decides what the caller of a begin gets: the right to run, the stored result (completed), the stored failure
// (failed), [ErrInFlight] under a live claim, [ErrUnknown], or [ErrMismatch] where the fingerprint differs, whatever the state.
// A [RefusedError] holds the reason, the wait and the HTTP status. Records in flight or unknown never expire by themselves.
//
// Every claim has an owner and a fence, a number that grows with each claim; every later write is compared with both. An
// owner whose claim has passed to another caller gets [ErrFenced], and nothing is written.
//
// # What it promises, and what it cannot
//
// Of all callers of a key, in all processes that share the store, one holds the claim at a time, and none runs after one has
// completed. But an effect can panic, and a process can die between the effect and its record. Then nobody can know whether the
// effect happened: if the guard is ReplaySafe the next caller runs it again; otherwise the outcome is unknown, and the effect is
// not run again until an operator has looked. Only an effect that commits together with its record, in the store's own
// transaction, is free of that gap. The guide, docs/idempotency.md, says more.
//
// The functions [Begin], [Renew], [Settle] and [Resolve] are the whole state machine; they are pure, and stores make them
// atomic. Package storetest checks that they do.
package idempotency
