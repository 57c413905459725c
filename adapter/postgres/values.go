package postgres

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/tenetdev/tenet/job"
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

// instant is a time that is scanned in UTC; NULL is the zero time.
type instant time.Time

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (t *instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	*t = instant{}
	if v.Valid {
		*t = instant(v.Time.UTC())
	}
	return nil
}

// Scan implements sql.Scanner, for transactions of database/sql.
func (t *instant) Scan(v any) error {
	var at pgtype.Timestamptz
	if err := at.Scan(v); err != nil {
		return err
	}
	return t.ScanTimestamptz(at)
}

// The columns of a job are selected in this order, from the body b and the row that moves s. Claims leave out what workers
// do not read.
const (
	bodyColumns = `b.id, b.type, b.queue, b.priority, b.payload, b.meta, b.timeout, b.max_attempts, b.unique_key, b.created_at`
	allColumns  = bodyColumns + `, s.run_at, s.attempts, s.started_at, s.fence, s.claimed_at, s.refusals, s.worker, s.cancel_requested,
s.finished_at, s.failed_at, s.last_error, s.reason, s.output, s.lease_until, s.refused_reason, s.refused_at, s.state, s.cause, s.waits_for,
    CASE WHEN s.needed > 0 THEN (SELECT ARRAY[f.id, n.name] FROM {{schema}}.flow_node n
        JOIN {{schema}}.flow f ON f.seq = ANY (ARRAY[n.flow]) WHERE n.job_id = s.id) END AS node`
)

// row holds the columns of a record while it is read.
type row struct {
	job.Record
	id              pgtype.UUID
	meta, uniqueKey []byte
	node            []string // flow and name
}

func (r *row) claimed() []any {
	return []any{
		&r.id, &r.Type, &r.Queue, &r.Priority, &r.Payload, &r.meta, (*int64)(&r.Timeout), &r.MaxAttempts, &r.uniqueKey, (*instant)(&r.CreatedAt),
		(*instant)(&r.RunAt), &r.Failures, (*instant)(&r.StartedAt), &r.Fence, (*instant)(&r.ClaimedAt), &r.Refusals,
	}
}

func (r *row) all() []any {
	return append(r.claimed(), (*zeronull.Text)(&r.Worker), (*instant)(&r.CancelRequestedAt), (*instant)(&r.FinishedAt), (*instant)(&r.FailedAt),
		(*zeronull.Text)(&r.LastError), (*zeronull.Text)(&r.Reason), &r.Output, (*instant)(&r.LeaseUntil), (*zeronull.Text)(&r.RefusedReason),
		(*instant)(&r.RefusedAt), (*string)(&r.State), (*zeronull.Text)(&r.Cause), (*zeronull.Text)(&r.WaitsFor), &r.node)
}

// record returns the record that was read.
func (r *row) record() (*job.Record, error) {
	out := r.Record
	out.ID, out.UniqueKey = r.id.String(), string(r.uniqueKey)
	if len(r.node) == 2 {
		out.Flow, out.Node = r.node[0], r.node[1]
	}
	if r.meta == nil {
		return &out, nil
	}
	return &out, json.Unmarshal(r.meta, &out.Meta)
}
