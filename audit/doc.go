// Package audit keeps every decision on record: retries, stops, hedges, what became of idempotency keys, transitions of jobs,
// changes of policies and what operators did, in a log that cannot be changed unnoticed and from which every decision can be
// derived again.
//
// # The model
//
// A [Log] is told by executors, guards and workers as their observer and journal, and writes [Event]s to a [Sink]:
//
//	observe.Event ─► Log: buffer ─► one writer: convert, redact, chain ─► batch ─► Sink (file, SQLite, PostgreSQL, NATS, slog)
//	                                                            Outbox mode: └──► local file ─► forwarder ─► Sink
//
// An event is stored as one line of canonical JSON (RFC 8785; docs/audit-schema.md lists the members). Lines are chained: each
// holds the SHA-256 of the one before it, and its own, over itself without that member. A chain has one writer; its first
// event, chain_opened, holds the heads of the chains that were in the sink already. [SignHeads] makes the heads safe to keep
// elsewhere.
//
// The [Mode] of a log says what is promised. Delivery is at least once under a stable event ID: sinks that can store each
// event once, and readers drop repetitions.
//
//	fail_closed  a decision is in the sink before it takes effect; while the sink is down, work stops
//	outbox       a decision is in a local durable file before it takes effect, and forwarded in the background
//	buffered     nothing waits; what finds the buffer full is lost, counted and reported
//
// A policy is held as policy_snapshot before its first use in each segment of a log (a file, a chain), so that a log needs
// nothing else to be replayed. Of work that succeeded at once a sample may be recorded; the rest is counted (call_count).
package audit
