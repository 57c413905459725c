// Package pgpipe connects pipelines to tables in PostgreSQL 14 or newer: a [Queue] takes rows from a table used as a queue, an
// [Outbox] follows a table to which rows are only added, and a [Sink] adds rows to either.
//
// # The model
//
// The tables are the user's own. A URL or [Options] name the columns; other columns are not touched.
//
//	Queue   claims a row by moving its available_at into the future (the lease) and incrementing its deliveries, in one
//	        statement that skips rows that others are claiming. No transaction and no lock stays open while a task runs. An
//	        acknowledgement deletes the row or, if there is a column for it, marks it done. The number of deliveries is the
//	        fencing token: a consumer that lost a row to a later claim cannot change it any more.
//
//	Outbox  reads rows in commit order. Each row holds its transaction's ID, and the cursor of a consumer is a snapshot of
//	        the server. The rows committed between two snapshots are those that only the later one sees, however long their
//	        transactions took. A row whose transaction commits late is read late, but never skipped, and an open transaction
//	        does not delay the others.
//
//	Sink    inserts a row for each transaction, unless there is one with its ID already. Transactions that are dispatched
//	        at the same time are stored in one statement.
//
// # Tables
//
// A queue, with the default names:
//
//	CREATE TABLE queue (
//	    id           text PRIMARY KEY,  -- any type; needs a unique index on this column alone
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
// Rows of a queue are claimed in the order of available_at and ID. Rows that several consumers claim at the same time, or that
// are delivered again, have no order. An outbox has one reader at a time for each consumer name; the others wait until it is
// gone. Rows are not removed from an outbox. The values of tx are valid on one server only: after restoring a logical dump to
// another server, see docs/connectors-postgres.md before you start a consumer.
package pgpipe
