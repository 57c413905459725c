package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"github.com/tenetdev/tenet/idempotency"
)

// Idempotency is an idempotency store in an SQLite file. It is safe for concurrent use, by any number of processes on one
// machine. Concurrent writes, also of jobs and audit events, are committed together; reads do not wait.
type Idempotency struct {
	db *DB
}

var (
	_ idempotency.Store = (*Idempotency)(nil)
	_ idempotency.Admin = (*Idempotency)(nil)
)

// Idempotency returns the file's idempotency store.
func (db *DB) Idempotency() *Idempotency { return &Idempotency{db: db} }

const (
	readRecordSQL = `SELECT fingerprint, state, owner, fence, lease, attempts, policy_hash, created, completed, expires, has_result, failure_type,
failure_message, result FROM tenet_idempotency WHERE tenant = ? AND operation = ? AND key = ?`
	// The conditions on the state follow idempotency.Filter. ?7 is the time.
	listRecordsSQL = `SELECT tenant, operation, key, fingerprint, state, owner, fence, lease, attempts, policy_hash, created, completed, expires, has_result,
failure_type, failure_message FROM tenet_idempotency WHERE (tenant, operation, key) > (?1, ?2, ?3) AND ?4 IN ('', tenant) AND ?5 IN ('', operation)
AND NOT (expires > 0 AND expires <= ?7)
AND CASE ?6 WHEN '' THEN 1 WHEN 'unknown' THEN state = 'unknown' OR state = 'in_flight' AND lease <= ?7
WHEN 'in_flight' THEN state = 'in_flight' AND lease > ?7 ELSE state = ?6 END
ORDER BY tenant, operation, key LIMIT ?8 + 0`
	writeRecordSQL = `INSERT INTO tenet_idempotency (tenant, operation, key, fingerprint, state, owner, fence, lease, attempts, policy_hash, created,
completed, expires, has_result, failure_type, failure_message, result) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, operation, key) DO UPDATE SET fingerprint = excluded.fingerprint, state = excluded.state, owner = excluded.owner,
fence = excluded.fence, lease = excluded.lease, attempts = excluded.attempts, policy_hash = excluded.policy_hash, created = excluded.created,
completed = excluded.completed, expires = excluded.expires, has_result = excluded.has_result, failure_type = excluded.failure_type,
failure_message = excluded.failure_message, result = excluded.result`
	removeRecordSQL  = `DELETE FROM tenet_idempotency WHERE tenant = ? AND operation = ? AND key = ?`
	expireRecordsSQL = `DELETE FROM tenet_idempotency WHERE rowid IN
(SELECT rowid FROM tenet_idempotency INDEXED BY tenet_idempotency_expires WHERE expires > 0 AND expires <= ? ORDER BY expires LIMIT ? + 0)`
)

// Begin implements idempotency.Store. It waits for the writer only if it has to write.
func (s *Idempotency) Begin(ctx context.Context, req idempotency.BeginRequest) (idempotency.Begun, error) {
	write := false
	b, err := viewed(ctx, s.db.jobs, "idempotency: begin", func(q querier) (b idempotency.Begun, err error) {
		current, err := readRecord(q, req.ID)
		b, write = idempotency.Begin(current, req, now())
		return b, err
	})
	switch {
	case err != nil:
		return idempotency.Begun{}, err
	case write:
		return written(ctx, s.db.jobs, "idempotency: begin", func(q querier) (idempotency.Begun, error) { return beginRecord(q, req) })
	}
	return b, nil
}

// BeginTx is Begin inside a transaction of DB.BeginTx, for effects that the same transaction holds: with SettleTx, the
// record and the effect are stored together or not at all. After an error the transaction must be rolled back.
func (s *Idempotency) BeginTx(ctx context.Context, tx *sql.Tx, req idempotency.BeginRequest) (idempotency.Begun, error) {
	if tx == nil {
		return idempotency.Begun{}, errNoTx
	}
	if err := s.db.jobs.check(ctx); err != nil {
		return idempotency.Begun{}, err
	}
	b, err := beginRecord(newTransaction(ctx, tx), req)
	if err != nil {
		return idempotency.Begun{}, s.db.wrap("idempotency: begin", err)
	}
	return b, nil
}

func beginRecord(q querier, req idempotency.BeginRequest) (idempotency.Begun, error) {
	current, err := readRecord(q, req.ID)
	if err != nil {
		return idempotency.Begun{}, err
	}
	b, write := idempotency.Begin(current, req, now())
	if write {
		err = writeRecord(q, &b.Record)
	}
	return b, err
}

// Renew implements idempotency.Store.
func (s *Idempotency) Renew(ctx context.Context, c idempotency.Claim, lease time.Duration) error {
	return s.change(ctx, "renew", c.ID, func(current *idempotency.Record, at time.Time) (idempotency.Record, bool, error) {
		next, err := idempotency.Renew(current, c, lease, at)
		return next, true, err
	})
}

// Settle implements idempotency.Store.
func (s *Idempotency) Settle(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	return s.change(ctx, "settle", c.ID, settling(c, settlement))
}

// SettleTx is Settle inside a transaction of DB.BeginTx, so that the effect and its record are stored together or not at
// all. After an error the transaction must be rolled back; idempotency.ErrFenced means that another owner has the claim.
func (s *Idempotency) SettleTx(ctx context.Context, tx *sql.Tx, c idempotency.Claim, settlement idempotency.Settlement) error {
	if tx == nil {
		return errNoTx
	}
	if err := s.db.jobs.check(ctx); err != nil {
		return err
	}
	refused, err := stepRecord(newTransaction(ctx, tx), c.ID, settling(c, settlement))
	if err != nil {
		return s.db.wrap("idempotency: settle", err)
	}
	return refused
}

// Get implements idempotency.Store.
func (s *Idempotency) Get(ctx context.Context, id idempotency.ID) (idempotency.Record, error) {
	r, err := viewed(ctx, s.db.jobs, "idempotency: get", func(q querier) (*idempotency.Record, error) { return readRecord(q, id) })
	switch {
	case err != nil:
		return idempotency.Record{}, err
	case r == nil || r.Expired(now()):
		return idempotency.Record{}, idempotency.ErrNotFound
	}
	return *r, nil
}

// List implements idempotency.Admin.
func (s *Idempotency) List(ctx context.Context, f idempotency.Filter, after idempotency.ID, limit int) ([]idempotency.Record, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return viewed(ctx, s.db.jobs, "idempotency: list", func(q querier) (list []idempotency.Record, err error) {
		var c recordColumns
		id := []any{&c.Tenant, &c.Operation, &c.Key}
		err = each(q, selection{
			text: listRecordsSQL, into: append(id, c.targets()...),
			args: []any{after.Tenant, after.Operation, after.Key, f.Tenant, f.Operation, string(f.State), now().UnixMicro(), int64(max(limit, 0))},
		}, func() error {
			list = append(list, c.record())
			return nil
		})
		return list, err
	})
}

// Resolve implements idempotency.Admin.
func (s *Idempotency) Resolve(ctx context.Context, c idempotency.Claim, settlement idempotency.Settlement) error {
	return s.change(ctx, "resolve", c.ID, func(current *idempotency.Record, at time.Time) (idempotency.Record, bool, error) {
		next, err := idempotency.Resolve(current, c, settlement, at)
		return next, true, err
	})
}

// Clear implements idempotency.Admin.
func (s *Idempotency) Clear(ctx context.Context, c idempotency.Claim) error {
	return s.judged(ctx, "clear", func(q querier) (refused, err error) {
		current, err := readRecord(q, c.ID)
		if err != nil {
			return nil, err
		}
		if current == nil || current.Claim() != c || current.Live(now()) {
			return idempotency.ErrFenced, nil
		}
		return nil, q.exec(removeRecordSQL, c.Tenant, c.Operation, c.Key)
	})
}

// Expire implements idempotency.Admin.
func (s *Idempotency) Expire(ctx context.Context, limit int) (int, error) {
	n, err := written(ctx, s.db.jobs, "idempotency: expire", func(q querier) (int64, error) {
		return q.update(expireRecordsSQL, now().UnixMicro(), max(limit, 0))
	})
	return int(n), err
}

// step is one of the pure functions of package idempotency: the next version of a record. current is nil if there is none.
type step func(current *idempotency.Record, at time.Time) (next idempotency.Record, write bool, err error)

func settling(c idempotency.Claim, s idempotency.Settlement) step {
	return func(current *idempotency.Record, at time.Time) (idempotency.Record, bool, error) {
		return idempotency.Settle(current, c, s, at)
	}
}

func (s *Idempotency) change(ctx context.Context, what string, id idempotency.ID, f step) error {
	return s.judged(ctx, what, func(q querier) (refused, err error) { return stepRecord(q, id, f) })
}

// judged writes with f and returns its error or, if it has written nothing, why not.
func (s *Idempotency) judged(ctx context.Context, what string, f func(q querier) (refused, err error)) error {
	refused, err := written(ctx, s.db.jobs, "idempotency: "+what, f)
	return cmp.Or(err, refused)
}

// stepRecord applies one step. A refusal is an answer and does not affect the rest of the transaction.
func stepRecord(q querier, id idempotency.ID, f step) (refused, err error) {
	current, err := readRecord(q, id)
	if err != nil {
		return nil, err
	}
	next, write, refused := f(current, now())
	if refused != nil || !write {
		return refused, nil
	}
	return nil, writeRecord(q, &next)
}

// readRecord returns the stored record, or nil.
func readRecord(q querier, id idempotency.ID) (found *idempotency.Record, err error) {
	c := &recordColumns{Record: idempotency.Record{ID: id}}
	err = each(q, selection{text: readRecordSQL, args: []any{id.Tenant, id.Operation, id.Key}, into: append(c.targets(), &c.Result)}, func() error {
		r := c.record()
		found = &r
		return nil
	})
	return found, err
}

// recordColumns are the columns of a record.
type recordColumns struct {
	idempotency.Record
	kind, message sql.NullString
}

// targets returns the scan targets of all columns except the ID and the result.
func (c *recordColumns) targets() []any {
	return append(make([]any, 0, 16),
		&c.Fingerprint, (*string)(&c.State), &c.Owner, &c.Fence, (*instantOrNone)(&c.Lease), &c.Attempts, &c.PolicyHash,
		(*instantOrNone)(&c.Created), (*instantOrNone)(&c.Completed), (*instantOrNone)(&c.Expires), &c.HasResult, &c.kind, &c.message,
	)
}

func (c *recordColumns) record() idempotency.Record {
	r := c.Record
	if c.kind.Valid {
		r.Failure = &idempotency.Failure{Type: c.kind.String, Message: c.message.String}
	}
	return r
}

func writeRecord(q querier, r *idempotency.Record) error {
	var kind, message sql.NullString
	if r.Failure != nil {
		kind, message = sql.NullString{String: r.Failure.Type, Valid: true}, sql.NullString{String: r.Failure.Message, Valid: true}
	}
	return q.exec(writeRecordSQL, r.Tenant, r.Operation, r.Key, r.Fingerprint, string(r.State), r.Owner, r.Fence, micros(r.Lease), int64(r.Attempts),
		r.PolicyHash, micros(r.Created), micros(r.Completed), micros(r.Expires), r.HasResult, kind, message, blob(r.Result))
}
