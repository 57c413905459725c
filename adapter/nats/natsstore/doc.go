// Package natsstore keeps idempotency records and audit events on NATS with JetStream, for any number of processes on any
// number of machines. Import it as natsstore beside github.com/nats-io/nats.go.
//
// # The model
//
// [Open] connects and returns a [DB]; [OpenConn] uses an existing connection. [DB.Idempotency] keeps each record under a key of
// a key-value bucket; [DB.Audit] keeps each event as a message of the stream TENET_AUDIT_V1. Both are created at the first use,
// with storage on disk. An existing bucket or stream is used as the operator has configured it, unless it would lose data. The
// package needs NATS server 2.10 or newer, and 2.12 for all features below.
//
// # Idempotency records
//
// Every step runs a pure function of package idempotency in a compare-and-set loop: it reads the last revision, decides, and
// writes on the condition that this is still the last revision. If another write came first, it starts over. If the answer to
// a write is lost, it looks for the write by its content before it repeats it; the write can take place only once, because
// then its condition no longer holds. Reads go to the leader of the bucket, never to followers.
//
// Keys are SHA-256 sums of the ID, so that tenant, operation and key may hold any bytes. A value is the record in JSON, a line
// end, and the unchanged result. A result and 16 KiB for the rest of the record must fit into the server's max_payload
// ([Idempotency.MaxResult]).
//
// # The clock
//
// JetStream does not offer a clock to clients. Each process compares its own clock ([Options].Clock) with the stored times of
// leases and expiry. If the clocks differ by up to S:
//
//   - A live claim is safe while S is less than the rest of its lease when it is renewed. Guards renew after a third of the
//     lease, so leases must be longer than 1.5 times the sum of S and the time that a renewal may take.
//   - A record may expire up to S too early: a TTL must cover the longest retry horizon and S.
//
// Synchronise clocks, and keep leases at ten times S or more; the default lease of 30 s allows for 3 s.
//
// The server removes records by per-message TTL (2.11 and newer), one hour after their expiry by its own clock. That only frees
// space: whether a record has expired does not depend on it. Older servers keep records until Expire.
//
// # Durability
//
// By default servers acknowledge a write before they flush it to the disk, which they do every sync_interval, 2 minutes by
// default. A server that is killed loses nothing; a machine that loses power can lose acknowledged records and events, and an
// effect could then happen twice. Set sync_interval to always, or use three replicas on machines that do not fail
// together; the persist_mode of the streams must stay default.
//
// # Audit events
//
// An event is published to tenet.audit.v1.<event_type> with its ID as Nats-Msg-Id. A batch is atomic (2.12 and newer): the server
// stores all of it, in order, or nothing. The server drops duplicates within the stream's duplicate window (2 minutes by
// default); later ones are stored again, and readers drop them by the event's ID. An event must fit into max_payload. A cursor
// is a sequence number of the stream.
package natsstore
