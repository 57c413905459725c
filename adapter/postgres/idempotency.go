package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenetdev/tenet/idempotency"
	"github.com/tenetdev/tenet/job"
)

// Idempotency is an idempotency store in PostgreSQL. It is safe for concurrent use, by any number of processes. The
// server's clock decides leases and expiry.
//
// Beginning a new key is one statement and one commit, and so is settling. Other operations read the row, apply a pure function
// of package idempotency, and write the result if the row has not changed since. Tenants, operations, keys and all other
// values of callers may contain any bytes.
type Idempotency struct{ db *DB }

var (
	_ idempotency.Store = (*Idempotency)(nil)
	_ idempotency.Admin = (*Idempotency)(nil)
)

// Idempotency returns the database's idempotency store.
func (db *DB) Idempotency() *Idempotency { return &Idempotency{db} }

// Parameters 1 to 3 are the ID in all of them. A clock in a sub-select is read once, so all times that a statement writes
// are equal.
const (
	insertRecordSQL = `
INSERT INTO {{schema}}.idempotency (tenant, operation, key, fingerprint, owner, policy_hash, state, fence, attempts, created, lease)
SELECT $1::bytea, $2::bytea, $3::bytea, $4::bytea, $5::bytea, $6::bytea, 'in_flight', (extract(epoch FROM t.now) * 1000000)::bigint, 1, t.now, t.now + $7::bigint * interval '1 microsecond'
FROM (SELECT clock_timestamp() AS now) t
ON CONFLICT DO NOTHING
RETURNING created`

	readRecordSQL = `
SELECT fingerprint, state, owner, fence, lease, attempts, policy_hash, has_result, failure_type, failure_message, created, completed, expires, result,
    clock_timestamp()
FROM {{schema}}.idempotency WHERE tenant = $1::bytea AND operation = $2::bytea AND key = $3::bytea`

	// The conditions on the state follow idempotency.Filter.
	listRecordsSQL = `
SELECT tenant, operation, key, fingerprint, state, owner, fence, lease, attempts, policy_hash, has_result, failure_type, failure_message, created,
    completed, expires
FROM {{schema}}.idempotency, (SELECT clock_timestamp() AS now) t
WHERE (tenant, operation, key) > ($1::bytea, $2::bytea, $3::bytea) AND ($4::bytea = '' OR tenant = $4::bytea) AND ($5::bytea = '' OR operation = $5::bytea)
    AND (expires IS NULL OR expires > t.now)
    AND CASE $6::text WHEN '' THEN true WHEN 'unknown' THEN state = 'unknown' OR state = 'in_flight' AND lease <= t.now
        WHEN 'in_flight' THEN state = 'in_flight' AND lease > t.now ELSE state = $6::text END
ORDER BY tenant, operation, key LIMIT $7`

	// Owner, fence, state and lease identify a version of a row: every step changes at least one of them.
	replaceRecordSQL = `
UPDATE {{schema}}.idempotency SET fingerprint = $8::bytea, state = $9::text, owner = $10::bytea, fence = $11::bigint, lease = $12::timestamptz,
    attempts = $13::integer, policy_hash = $14::bytea, has_result = $15::boolean, result = $16::bytea, failure_type = $17::bytea,
    failure_message = $18::bytea, created = $19::timestamptz, completed = $20::timestamptz, expires = $21::timestamptz
WHERE tenant = $1::bytea AND operation = $2::bytea AND key = $3::bytea
    AND owner = $4::bytea AND fence = $5::bigint AND state = $6::text AND lease IS NOT DISTINCT FROM $7::timestamptz`

	renewRecordSQL = `
UPDATE {{schema}}.idempotency SET lease = clock_timestamp() + $6::bigint * interval '1 microsecond'
WHERE tenant = $1::bytea AND operation = $2::bytea AND key = $3::bytea AND owner = $4::bytea AND fence = $5::bigint AND state = 'in_flight'`

	settleRecordSQL = `
UPDATE {{schema}}.idempotency SET state = $6::text, lease = NULL, has_result = $7::boolean, result = $8::bytea, failure_type = $9::bytea,
    failure_message = $10::bytea, completed = t.now, expires = t.now + $11::bigint * interval '1 microsecond'
FROM (SELECT clock_timestamp() AS now) t
WHERE tenant = $1::bytea AND operation = $2::bytea AND key = $3::bytea AND owner = $4::bytea AND fence = $5::bigint AND state IN ('in_flight', 'unknown')`

	clearRecordSQL = `
DELETE FROM {{schema}}.idempotency
WHERE tenant = $1::bytea AND operation = $2::bytea AND key = $3::bytea AND owner = $4::bytea AND fence = $5::bigint
    AND NOT (state = 'in_flight' AND lease > clock_timestamp())`

	expireRecordsSQL = `
DELETE FROM {{schema}}.idempotency WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {{schema}}.idempotency WHERE expires <= statement_timestamp() ORDER BY expires LIMIT $1 FOR UPDATE SKIP LOCKED))`
)

// Begin implements idempotency.Store. It waits while another transaction holds the key.
func (s *Idempotency) Begin(ctx context.Context, req idempotency.BeginRequest) (idempotency.Begun, error) {
	return s.begin(ctx, repeated{pgxSession{s.db.pool}}, pinned{s.db}, req)
}

// BeginTx is Begin as part of the caller's transaction, for effects that the same transaction holds: with SettleTx, the
// record and the effect are stored together or not at all. Other callers that begin the key wait until the transaction ends.
func (s *Idempotency) BeginTx(ctx context.Context, tx pgx.Tx, req idempotency.BeginRequest) (idempotency.Begun, error) {
	if tx == nil {
		return idempotency.Begun{}, errNoTx
	}
	return s.begin(ctx, pgxSession{tx}, pgxSession{tx}, req)
}

// SQLIdempotency joins records to transactions of database/sql, with any PostgreSQL driver. It is safe for concurrent use.
type SQLIdempotency struct{ records *Idempotency }

// SQL is the store for transactions of database/sql.
func (s *Idempotency) SQL() SQLIdempotency { return SQLIdempotency{s} }

// BeginTx is [Idempotency.BeginTx] for a transaction of database/sql.
func (s SQLIdempotency) BeginTx(ctx context.Context, tx *sql.Tx, req idempotency.BeginRequest) (idempotency.Begun, error) {
	if tx == nil {
		return idempotency.Begun{}, errNoTx
	}
	return s.records.begin(ctx, sqlSession{tx}, sqlSession{tx}, req)
}

// begin inserts with the first session, for which the plan does not matter, and does everything else with the second.
func (s *Idempotency) begin(ctx context.Context, first, second session, req idempotency.BeginRequest) (idempotency.Begun, error) {
	if s.db.closed.Load() {
		return idempotency.Begun{}, job.ErrClosed
	}
	for {
		var created time.Time
		inserted, err := first.row(ctx, []any{&created}, s.db.hot(insertRecordSQL), append(idColumns(req.ID),
			[]byte(req.Fingerprint), []byte(req.Owner), []byte(req.PolicyHash), req.Lease.Microseconds())...)
		if err != nil {
			return idempotency.Begun{}, s.wrap("begin", err)
		}
		if inserted {
			b, _ := idempotency.Begin(nil, req, created)
			return b, nil
		}
		current, now, err := s.read(ctx, second, req.ID)
		if err != nil {
			return idempotency.Begun{}, s.wrap("begin", err)
		}
		if current == nil { // removed in between
			continue
		}
		b, write := idempotency.Begin(current, req, now)
		if !write {
			return b, nil
		}
		if written, err := s.replace(ctx, second, current, &b.Record); err != nil || written {
			return b, s.wrap("begin", err)
		}
	}
}

// Renew implements idempotency.Store.
func (s *Idempotency) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	n, err := pinned{s.db}.exec(ctx, s.db.hot(renewRecordSQL), append(claimColumns(c), lease.Microseconds())...)
	if err == nil && n == 0 {
		return idempotency.ErrFenced
	}
	return s.wrap("renew", err)
}

// Settle implements idempotency.Store.
func (s *Idempotency) Settle(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	return s.settle(ctx, pinned{s.db}, c, settlement)
}

// SettleTx is Settle as part of the caller's transaction, so that the effect and its record are stored together or not at
// all. After ErrFenced roll back: another owner has the claim.
func (s *Idempotency) SettleTx(ctx context.Context, tx pgx.Tx, c idempotency.Claim, settlement idempotency.Settlement) error {
	if tx == nil {
		return errNoTx
	}
	return s.settle(ctx, pgxSession{tx}, c, settlement)
}

// SettleTx is [Idempotency.SettleTx] for a transaction of database/sql.
func (s SQLIdempotency) SettleTx(ctx context.Context, tx *sql.Tx, c idempotency.Claim, settlement idempotency.Settlement) error {
	if tx == nil {
		return errNoTx
	}
	return s.records.settle(ctx, sqlSession{tx}, c, settlement)
}

func (s *Idempotency) settle(ctx context.Context, q session, c idempotency.Claim, settlement idempotency.Settlement) error {
	if err := settlement.Validate(); err != nil {
		return err
	}
	kind, message := failureColumns(settlement.Failure)
	n, err := q.exec(ctx, s.db.hot(settleRecordSQL), append(claimColumns(c), string(settlement.State), settlement.HasResult, settlement.Result,
		kind, message, settlement.TTL.Microseconds())...)
	if err != nil || n > 0 {
		return s.wrap("settle", err)
	}
	return s.change(ctx, q, change{"settle", c.ID, func(current *idempotency.Record, now time.Time) (idempotency.Record, bool, error) {
		return idempotency.Settle(current, c, settlement, now)
	}})
}

// Get implements idempotency.Store.
func (s *Idempotency) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	r, now, err := s.read(ctx, pinned{s.db}, id)
	switch {
	case err != nil:
		return idempotency.Record{}, s.wrap("get", err)
	case r == nil || r.Expired(now):
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	return *r, nil
}

// List implements idempotency.Admin.
func (s *Idempotency) List(ctx context.Context, f idempotency.Filter, after idempotency.ID, limit int) ([]idempotency.Record, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if s.db.closed.Load() {
		return nil, job.ErrClosed
	}
	rows, _ := s.db.pool.Query(ctx, s.db.sql(listRecordsSQL), append(idColumns(after), []byte(f.Tenant), []byte(f.Operation), string(f.State),
		max(limit, 0))...)
	var tenant, operation, key []byte
	var c recordColumns
	var list []idempotency.Record
	_, err := pgx.ForEachRow(rows, append([]any{&tenant, &operation, &key}, c.targets()...), func() error {
		r := c.record()
		r.ID = idempotency.ID{Tenant: string(tenant), Operation: string(operation), Key: string(key)}
		list = append(list, r)
		return nil
	})
	return list, s.wrap("list", err)
}

// Resolve implements idempotency.Admin.
func (s *Idempotency) Resolve(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	return s.change(ctx, pinned{s.db}, change{"resolve", c.ID, func(current *idempotency.Record, now time.Time) (idempotency.Record, bool, error) {
		next, err := idempotency.Resolve(current, c, settlement, now)
		return next, err == nil, err
	}})
}

// Clear implements idempotency.Admin.
func (s *Idempotency) Clear(ctx context.Context, c idempotency.Claim) error {
	n, err := pinned{s.db}.exec(ctx, s.db.sql(clearRecordSQL), claimColumns(c)...)
	if err == nil && n == 0 {
		return idempotency.ErrFenced
	}
	return s.wrap("clear", err)
}

// Expire implements idempotency.Admin. It skips records that another transaction is writing.
func (s *Idempotency) Expire(ctx context.Context, limit int) (int, error) {
	n, err := pinned{s.db}.exec(ctx, s.db.sql(expireRecordsSQL), max(limit, 0))
	return int(n), s.wrap("expire", err)
}

// change is one step of a record, by a pure function.
type change struct {
	name string
	id   idempotency.ID
	step func(current *idempotency.Record, now time.Time) (next idempotency.Record, write bool, err error)
}

// change applies one step, and repeats it if the row was changed between reading and writing it.
func (s *Idempotency) change(ctx context.Context, q session, c change) error {
	for {
		current, now, err := s.read(ctx, q, c.id)
		if err != nil {
			return s.wrap(c.name, err)
		}
		next, write, err := c.step(current, now)
		if err != nil || !write {
			return err
		}
		if written, err := s.replace(ctx, q, current, &next); err != nil || written {
			return s.wrap(c.name, err)
		}
	}
}

// read returns the stored record, or nil, and the server's time.
func (s *Idempotency) read(ctx context.Context, q session, id idempotency.ID) (*idempotency.Record, time.Time, error) {
	var now time.Time
	c := &recordColumns{Record: idempotency.Record{ID: id}}
	found, err := q.row(ctx, append(c.targets(), &c.Result, &now), s.db.hot(readRecordSQL), idColumns(id)...)
	if err != nil || !found {
		return nil, time.Time{}, err
	}
	r := c.record()
	return &r, now, nil
}

// recordColumns are the columns of a record.
type recordColumns struct {
	idempotency.Record
	fingerprint, owner, policy, kind, message []byte
}

// targets returns the scan targets of all columns except the ID and the result.
func (c *recordColumns) targets() []any {
	return append(make([]any, 0, 16),
		&c.fingerprint, (*string)(&c.State), &c.owner, &c.Fence, (*instant)(&c.Lease), &c.Attempts, &c.policy, &c.HasResult, &c.kind, &c.message,
		(*instant)(&c.Created), (*instant)(&c.Completed), (*instant)(&c.Expires),
	)
}

func (c *recordColumns) record() idempotency.Record {
	r := c.Record
	r.Fingerprint, r.Owner, r.PolicyHash = string(c.fingerprint), string(c.owner), string(c.policy)
	if c.kind != nil {
		r.Failure = &idempotency.Failure{Type: string(c.kind), Message: string(c.message)}
	}
	return r
}

// replace writes next if the row has not changed.
func (s *Idempotency) replace(ctx context.Context, q session, current, next *idempotency.Record) (written bool, err error) {
	kind, message := failureColumns(next.Failure)
	n, err := q.exec(ctx, s.db.hot(replaceRecordSQL), append(claimColumns(current.Claim()), string(current.State), stamp(current.Lease),
		[]byte(next.Fingerprint), string(next.State), []byte(next.Owner), next.Fence, stamp(next.Lease), next.Attempts, []byte(next.PolicyHash),
		next.HasResult, next.Result, kind, message, stamp(next.Created), stamp(next.Completed), stamp(next.Expires))...)
	return n > 0, err
}

func idColumns(id idempotency.ID) []any {
	return []any{[]byte(id.Tenant), []byte(id.Operation), []byte(id.Key)}
}

func claimColumns(c idempotency.Claim) []any {
	return append(idColumns(c.ID), []byte(c.Owner), c.Fence)
}

func failureColumns(f *idempotency.Failure) (kind, message []byte) {
	if f == nil {
		return nil, nil
	}
	return []byte(f.Type), []byte(f.Message)
}

func (s *Idempotency) wrap(what string, err error) error {
	return s.db.wrap("idempotency: "+what, err)
}
