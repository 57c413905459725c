package postgres

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

// parseID reads a UUID with dashes.
func parseID(s string) (id pgtype.UUID, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	at := 0
	for _, part := range [...]string{s[:8], s[9:13], s[14:18], s[19:23], s[24:]} {
		n, err := hex.Decode(id.Bytes[at:], []byte(part))
		if err != nil {
			return pgtype.UUID{}, false
		}
		at += n
	}
	id.Valid = true
	return id, true
}

// stamp returns a time as it is stored: the zero time is NULL.
func stamp(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: job.Stamp(t), Valid: !t.IsZero()}
}

func utc(t pgtype.Timestamptz) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}

// The columns of a job are selected in this order, from the body b and the row that moves s. Claims leave out what workers
// do not read.
const (
	bodyColumns = `b.id, b.type, b.queue, b.priority, b.payload, b.meta, b.timeout, b.max_attempts, b.unique_key, b.created_at`
	allColumns  = bodyColumns + `, s.run_at, s.attempts, s.started_at, s.fence, s.claimed_at, s.refusals, s.worker, s.cancel_requested,
s.finished_at, s.failed_at, s.last_error, s.reason, s.output, s.lease_until, s.refused_reason, s.refused_at, s.state, s.cause, s.waits_for,
    CASE WHEN s.needed > 0 THEN (SELECT ARRAY[f.id, n.name] FROM {{schema}}.flow_node n JOIN {{schema}}.flow f ON f.seq = n.flow WHERE n.job_id = s.id) END AS node`
)

// row holds the columns of a record while it is read.
type row struct {
	job.Record
	id                                          pgtype.UUID
	createdAt, runAt, startedAt, claimedAt      pgtype.Timestamptz
	finishedAt, failedAt, leaseUntil, refusedAt pgtype.Timestamptz
	cancelRequested                             pgtype.Timestamptz
	worker, lastError, reason, refusedReason    pgtype.Text
	cause, waitsFor                             pgtype.Text
	meta, uniqueKey                             []byte
	priority                                    int16
	maxAttempts, attempts, refusals             int32
	timeout                                     int64
	state                                       string
	node                                        []string // flow and name
}

func (r *row) claimed() []any {
	return []any{
		&r.id, &r.Type, &r.Queue, &r.priority, &r.Payload, &r.meta, &r.timeout, &r.maxAttempts, &r.uniqueKey, &r.createdAt,
		&r.runAt, &r.attempts, &r.startedAt, &r.Fence, &r.claimedAt, &r.refusals,
	}
}

func (r *row) all() []any {
	return append(r.claimed(), &r.worker, &r.cancelRequested, &r.finishedAt, &r.failedAt, &r.lastError, &r.reason, &r.Output, &r.leaseUntil, &r.refusedReason, &r.refusedAt, &r.state, &r.cause, &r.waitsFor, &r.node)
}

// record returns the record that was read.
func (r *row) record() (*job.Record, error) {
	out := r.Record
	out.ID, out.State, out.Priority, out.Timeout, out.UniqueKey = r.id.String(), job.State(r.state), int(r.priority), time.Duration(r.timeout), string(r.uniqueKey)
	out.MaxAttempts, out.Failures, out.Refusals = int(r.maxAttempts), int(r.attempts), int(r.refusals)
	out.CreatedAt, out.RunAt, out.StartedAt, out.ClaimedAt = utc(r.createdAt), utc(r.runAt), utc(r.startedAt), utc(r.claimedAt)
	out.FinishedAt, out.FailedAt, out.LeaseUntil, out.RefusedAt = utc(r.finishedAt), utc(r.failedAt), utc(r.leaseUntil), utc(r.refusedAt)
	out.CancelRequestedAt = utc(r.cancelRequested)
	out.Cause, out.WaitsFor = r.cause.String, r.waitsFor.String
	out.Worker, out.LastError, out.Reason, out.RefusedReason = r.worker.String, r.lastError.String, policy.Reason(r.reason.String), policy.Reason(r.refusedReason.String)
	if len(r.node) == 2 {
		out.Flow, out.Node = r.node[0], r.node[1]
	}
	if r.meta == nil {
		return &out, nil
	}
	return &out, json.Unmarshal(r.meta, &out.Meta)
}
