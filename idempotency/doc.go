// Package idempotency makes repetition safe: an effect that is requested again under the same key does not happen again, and
// the caller gets the result of the first time.
//
// # The model
//
// A key names an effect: the sender's own key ([CheckKey]), or one computed from the effect's parameters ([Parts]). A
// fingerprint of the request ([Fingerprint]) ensures that one key is not used for two requests. A [Store] keeps a
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
//	      │                    │           unknown ── complete, fail, release: by its late owner,
//	      │                    │                      or by an operator (Resolve)
//	      └───── ttl over ─────┴──────────────────────────────────────────────┘
//
// The record decides what the caller of a begin gets: the right to run, the stored result (completed), the stored failure
// (failed), [ErrInFlight] under a live claim, [ErrUnknown], or [ErrMismatch] where the fingerprint differs, whatever the state.
// A [RefusedError] holds the reason, the wait and the HTTP status. Records in flight or unknown never expire by themselves.
//
// Every claim has an owner and a fence, a number that grows with each claim. The store compares both before every later
// write. An owner whose claim has passed to another caller gets [ErrFenced], and nothing is written.
//
// # Guarantees and limits
//
// Of all callers of a key, in all processes that share the store, one holds the claim at a time, and none runs after one has
// completed. But an effect can panic, and a process can die between the effect and its record. Then it is not known whether
// the effect happened: if the guard is ReplaySafe, the next caller runs it again; otherwise the outcome is unknown, and the
// effect does not run again until an operator resolves the record. Only an effect that commits together with its record, in
// the store's own transaction, does not have this gap. See docs/idempotency.md for more.
//
// The functions [Begin], [Renew], [Settle] and [Resolve] are the whole state machine. They are pure; stores make them
// atomic, which package storetest checks.
package idempotency
