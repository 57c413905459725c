// Package idempotency makes repetition safe: an effect that is asked for again under the same key does not happen again, and
// its caller gets the result of the first time.
//
// # The model
//
// A key names an effect: the sender's own ([CheckKey]), or one computed from what the effect is about ([Parts]). Beside it
// stands a fingerprint of the request ([Fingerprint]), so that one key cannot stand for two requests. A [Store] keeps a
// [Record] for each key of a scope (tenant and operation). A [Guard] claims the record before the effect, keeps the claim live
// while the effect lasts, and records how it ended:
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
// What a begin finds decides what its caller gets: the right to run, the stored result (completed), the stored failure
// (failed), [ErrInFlight] under a live claim, [ErrUnknown], or [ErrMismatch] where the fingerprint is another, whatever the
// state. Records in flight or unknown never expire by themselves.
//
// Every claim has an owner and a fence, a number that grows with each claim; all that is written later is compared with
// both. An owner whose claim has passed to somebody else gets [ErrFenced], and nothing is written.
//
// # What it promises, and what it cannot
//
// Of all callers of a key, in all processes that share the store, one holds the claim at a time, and none runs after one has
// completed. But a process can die between the effect and its record. Then nobody can know whether the effect happened: for an operation that
// is declared safe to replay the next caller runs it again; for every other one the outcome is unknown, and it is not run
// again until an operator has looked. Only an effect that commits together with its record, in the store's own transaction,
// is free of that gap. The guide, docs/idempotency.md, says more.
//
// The functions [Begin], [Renew], [Settle] and [Resolve] are all there is to the machine; they are pure, and stores make them
// atomic. Package storetest checks that they do.
package idempotency
