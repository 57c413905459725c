package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/tenetdev/tenet/job"
)

// Enqueue implements job.Store. Concurrent calls are committed together.
func (s *Jobs) Enqueue(ctx context.Context, list []job.Insert) ([]job.Receipt, error) {
	if len(list) == 0 {
		return nil, s.check(ctx)
	}
	o := &operation{inserts: list}
	if err := s.db.writer.write(ctx, "enqueue", o); err != nil {
		return nil, err
	}
	return o.receipts, nil
}

var errNoTx = errors.New("sqlite: the transaction is nil")

// EnqueueTx stores jobs inside a transaction of DB.BeginTx: they exist when it commits, and never if it is rolled back.
// Requests are checked as by job.Client.EnqueueMany; receipts are in their order. After any other error roll the transaction
// back. Workers find the jobs within a tenth of a second after the commit.
func (s *Jobs) EnqueueTx(ctx context.Context, tx *sql.Tx, requests ...job.Request) ([]job.Receipt, error) {
	list, err := job.Inserts(requests)
	if err != nil {
		return nil, err
	}
	return s.insertTx(ctx, tx, list)
}

func (s *Jobs) insertTx(ctx context.Context, tx *sql.Tx, list []job.Insert) ([]job.Receipt, error) {
	if tx == nil {
		return nil, errNoTx
	}
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	q := newTransaction(ctx, tx)
	receipts, err := enqueue(q, list, job.InTransaction)
	if err == nil {
		err = tend(q, now())
	}
	return receipts, s.db.wrap("enqueue", err)
}

// Binding a parameter costs as much as storing its column, so columns that most jobs leave out take their defaults. ?1 is the
// time of creation. OR FAIL avoids copies of pages for undoing a single statement: after an error the whole transaction is
// rolled back.
var (
	insertSQL = newBulk(13, `INSERT OR FAIL INTO tenet_job (created_at, state, id, queue, run_at, type, payload, priority, max_attempts, timeout, unique_key,
unique_for, meta, waits_for, needed) SELECT ?1, `+newWaitingState+`, * FROM (VALUES `, `) AS v`)
	plainSQL = newBulk(5, `INSERT OR FAIL INTO tenet_job (created_at, state, id, queue, run_at, type, payload) SELECT ?1, `+newState+`, * FROM (VALUES `, `) AS v`)
)

// newState is the state of a row of plainSQL.
const newState = `iif(v.column3 > ?1, 'scheduled', 'ready')`

// newWaitingState is the state of a row of insertSQL.
const newWaitingState = `iif(v.column12 <> '', 'waiting', ` + newState + `)`

// enqueue stores jobs, all or none: after an error the caller rolls back.
func enqueue(q querier, list []job.Insert, durability job.Durability) ([]job.Receipt, error) {
	at := now()
	receipts := make([]job.Receipt, len(list))
	plain := make([]any, 0, len(list)*plainSQL.width)
	var other []any
	counts := totals{}
	gate, err := q.gate()
	if err != nil {
		return nil, err
	}
	for i := range list {
		in := &list[i]
		if in.UniqueKey != "" {
			holder, err := holdKey(q, in, at)
			if err != nil {
				return nil, err
			}
			if holder != "" {
				receipts[i] = job.Receipt{ID: holder, Existed: true}
				continue
			}
		}
		r := job.New(*in, at)
		if r.State == job.Ready {
			q.changed()
		}
		if gate.atGate(r) {
			gate.came(r, nil)
		}
		counts.enqueued(r.Queue, r.State)
		receipts[i] = job.Receipt{ID: in.ID, Durability: durability}
		if r.Priority == 0 && r.MaxAttempts == 0 && r.Timeout == 0 && r.UniqueKey == "" && len(r.Meta) == 0 && r.WaitsFor == "" && in.Needed == job.NotInFlow {
			plain = append(plain, r.ID, r.Queue, r.RunAt.UnixMicro(), r.Type, blob(r.Payload))
			continue
		}
		meta, err := metaText(in.Meta)
		if err != nil {
			return nil, err
		}
		other = append(other, r.ID, r.Queue, r.RunAt.UnixMicro(), r.Type, blob(r.Payload), int64(r.Priority), int64(r.MaxAttempts), int64(r.Timeout),
			r.UniqueKey, int64(max(in.UniqueFor, 0)), meta, r.WaitsFor, int64(in.Needed))
	}
	err = plainSQL.exec(q, plain, at.UnixMicro())
	if err == nil {
		err = insertSQL.exec(q, other, at.UnixMicro())
	}
	if err == nil {
		err = q.count(counts, nil)
	}
	return receipts, err
}

const (
	holderSQL = `SELECT job_id FROM tenet_unique WHERE queue = ? AND key = ? AND (until = 0 OR +until > ?)`
	holdSQL   = `INSERT OR REPLACE INTO tenet_unique (queue, key, job_id, until) VALUES (?, ?, ?, ?)`
	expireSQL = `DELETE FROM tenet_unique WHERE (queue, key) IN
(SELECT queue, key FROM tenet_unique INDEXED BY tenet_unique_until WHERE until > 0 AND until <= ? ORDER BY until LIMIT ? + 0)`
	releaseSQL = `DELETE FROM tenet_unique WHERE queue = ? AND key = ? AND job_id = ? AND until = 0`
)

// holdKey gives a new job its unique key, or returns the ID of the job that holds it.
func holdKey(q querier, in *job.Insert, at time.Time) (string, error) {
	holder, err := keyHolder(q, in.Queue, in.UniqueKey, at)
	if err != nil || holder != "" {
		return holder, err
	}
	until := int64(0)
	if in.UniqueFor > 0 {
		until = job.Stamp(at.Add(in.UniqueFor)).UnixMicro()
	}
	return "", q.exec(holdSQL, in.Queue, in.UniqueKey, in.ID, until)
}

// keyHolder returns the ID of the job that holds a unique key, or "".
func keyHolder(q querier, queue, key string, at time.Time) (holder string, err error) {
	err = one(q, selection{text: holderSQL, args: []any{queue, key, at.UnixMicro()}, into: []any{&holder}})
	return holder, err
}

// releaseKeys frees the unique keys of jobs that have ended, unless a window holds them.
func releaseKeys(q querier, ended []*entry) error {
	for _, e := range ended {
		if e.UniqueKey == "" {
			continue
		}
		if err := q.exec(releaseSQL, e.Queue, e.UniqueKey, e.ID); err != nil {
			return err
		}
	}
	return nil
}
