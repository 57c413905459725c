// Package pgpipe connects pipelines to tables in PostgreSQL, version 14 or newer: a [Queue] takes rows out of a table that
// is a queue, an [Outbox] follows a table that rows are only added to, and a [Sink] adds rows to either.
//
// # The model
//
// The tables are the user's own. Which column is what, a URL or [Options] say; columns that nothing is said of are left
// alone.
//
//	Queue   a row is claimed by moving its available_at into the future (the lease) and counting its deliveries up, in one
//	        statement that skips what others are claiming; no transaction and no lock stays open while a task works. An
//	        acknowledgement deletes the row or, with a column for it, marks it done. The count of deliveries is the fencing
//	        token: whoever lost a row to a later claim changes nothing any more.
//
//	Outbox  rows come in the order of their commits. Next to each row its transaction's ID is kept, and the cursor of a
//	        consumer is a snapshot of the server: what the last snapshot did not see and the next one does is what was
//	        committed in between, however long the transactions took. A row whose transaction commits late is read late,
//	        and never skipped; a transaction that stays open holds nobody else up.
//
//	Sink    a row for each transaction, and none where there is one with its ID already. Transactions that are dispatched
//	        at the same time are stored in one statement.
//
// # Tables
//
// A queue, with the default names:
//
//	CREATE TABLE queue (
//	    id           text PRIMARY KEY,  -- any type with a unique index of its own
//	    payload      bytea NOT NULL,    -- or text, json, jsonb
//	    available_at timestamptz NOT NULL DEFAULT now(),
//	    deliveries   integer NOT NULL DEFAULT 0
//	);
//	CREATE INDEX ON queue (available_at, id);
//
// An outbox:
//
//	CREATE TABLE outbox (
//	    seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
//	    tx      xid8 NOT NULL DEFAULT pg_current_xact_id(),
//	    id      text NOT NULL UNIQUE,
//	    payload jsonb NOT NULL
//	);
//	CREATE INDEX ON outbox (tx);
//
// # What it does not do
//
// Rows of a queue are claimed by available_at and then ID; those that are claimed at the same time by several consumers, or
// that come again, have no order. An outbox has one reader at a time for each consumer name; others wait until it is gone.
// Rows are not removed from an outbox. The values of tx belong to one server: after a logical dump was restored into
// another one, see the documentation of connectors (docs/connectors-postgres.md) before reading on.
package pgpipe
