// Package natsstore keeps idempotency records and audit events on NATS with JetStream, for any number of processes on any
// number of machines. Import it as natsstore beside github.com/nats-io/nats.go.
//
// # The model
//
// [Open] connects as a [DB], [OpenConn] works over a connection that is there. [DB.Idempotency] keeps each record under a
// key of a key-value bucket; [DB.Audit] keeps each event as a message of the stream TENET_AUDIT_V1. Both are made when they
// are first used, with storage on disk; what exists already is taken as an operator has set it up, unless it would lose
// data. Needs NATS server 2.10 or newer, 2.12 for all of what follows.
//
// # Idempotency records
//
// Every step is the pure function of package idempotency in a compare-and-set loop: read the last revision, decide, write
// on condition that it still is the last one. A lost race starts over. A write without an answer is looked for, by its
// content, before it is tried again; it can take place only once, because its condition then no longer holds. Reads go to
// the leader of the bucket, never to followers.
//
// Keys are SHA-256 sums of the ID, so that tenant, operation and key may hold any bytes. A value is the record in JSON,
// a line end, and the result as it is; together with 16 KiB for the rest a result must fit into the server's max_payload
// ([Idempotency.MaxResult]).
//
// # The clock
//
// JetStream has no clock that a client could ask. Leases and expiry are judged by the clock of the process that asks
// ([Options].Clock), against the stored time. With clocks that differ by up to S:
//
//   - A live claim is safe while S is less than what is left of its lease when it is renewed: guards renew at a third, so
//     leases must be longer than 1.5 times the sum of S and the time that a renewal may take.
//   - A record may count as expired up to S too early: a TTL must cover the longest retry horizon and S.
//
// Synchronise clocks, and keep leases at ten times S or more; the default lease of 30 s allows for 3 s.
//
// The server removes records by a TTL of single messages (2.11 and newer), one hour after their expiry, by its own clock.
// That only frees space: whether a record counts never depends on it. Older servers keep them until Expire.
//
// # Durability
//
// By default servers acknowledge before they flush to the disk: the operating system does within sync_interval, 2 minutes
// by default. A server that is killed loses nothing; a machine that loses power can lose acknowledged records and events,
// and an effect could then happen twice. Set sync_interval to always, or use three replicas on machines that do not fail
// together; the persist_mode of the streams must stay default.
//
// # Audit events
//
// An event goes to tenet.audit.v1.<event_type> with its ID as Nats-Msg-Id. A batch is published atomically (2.12 and newer):
// all of it or nothing is stored, in its order. Repetitions within the stream's duplicate window (2 minutes by default) are
// dropped by the server; later ones are stored again, and readers drop them by the event's ID. An event must fit into
// max_payload. A cursor is a sequence of the stream.
package natsstore
