// Package audit records every decision: retries, stops, hedges, actions on idempotency keys, transitions of jobs, changes of
// policies and actions of operators. Changes to its log are detectable, and every decision can be derived from it again.
//
// # The model
//
// A [Log] is the observer and journal of executors, guards and workers, and writes [Event]s to a [Sink]:
//
//	observe.Event ─► Log: buffer ─► one writer: convert, redact, chain ─► batch ─► Sink (file, SQLite, PostgreSQL, NATS, slog)
//	                                                            Outbox mode: └──► local file ─► forwarder ─► Sink
//
// An event is stored as one line of canonical JSON (RFC 8785; docs/audit-schema.md lists the members). Lines are chained: each
// holds the SHA-256 of the line before it, and its own hash, which covers the line without that member. A chain has one writer; its first
// event, chain_opened, holds the heads of the chains that were in the sink already. [SignHeads] signs the heads, to be kept elsewhere.
//
// The [Mode] of a log says what it guarantees. Delivery is at least once under a stable event ID: some sinks store each event
// once, and readers drop duplicates.
//
//	fail_closed  a decision is in the sink before it takes effect; while the sink is down, work stops
//	outbox       a decision is in a local durable file before it takes effect, and forwarded in the background
//	buffered     callers never wait; an event that finds the buffer full is lost, counted and reported
//
// Each segment of a log (a file, a chain) holds a policy_snapshot before the first use of a policy, so that replay needs
// nothing but the log. Successes with the first attempt may be sampled; the rest is counted (call_count).
package audit
