package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
)

// row holds the columns of a job. Columns that a query does not read stay zero.
type row struct {
	job.Record
	seq       int64
	uniqueFor int64
	needed    int

	meta []byte
	ran  time.Time
}

// columns is a list of columns of tenet_job.
type columns []string

var (
	// stateColumns are read and judged by transitions.
	stateColumns = columns{
		"seq", "id", "queue", "state", "priority", "run_at", "fence", "lease_until", "attempts", "max_attempts", "started_at", "claimed_at", "finished_at",
		"failed_at", "cancel_requested", "refusals", "refused_at", "refused_reason", "reason", "worker", "unique_key", "unique_for", "last_error", "output",
		"ran_at", "type", "cause", "waits_for", "needed",
	}
	// claimColumns are the columns that a worker reads.
	claimColumns = columns{
		"seq", "id", "queue", "priority", "run_at", "fence", "attempts", "max_attempts", "created_at", "started_at", "cancel_requested", "refusals",
		"type", "timeout", "unique_key", "meta", "payload",
	}
	allColumns = append(stateColumns[:len(stateColumns):len(stateColumns)], "created_at", "timeout", "meta", "payload", flowColumn, nodeColumn)
)

func (c columns) String() string { return strings.Join(c, ", ") }

// into lists where the columns go.
func (c columns) into(r *row) []any {
	into := make([]any, len(c))
	for i, name := range c {
		into[i] = targets[name](r)
	}
	return into
}

// targets are where columns go.
var targets = map[string]func(r *row) any{
	"seq":              func(r *row) any { return &r.seq },
	"id":               func(r *row) any { return &r.ID },
	"queue":            func(r *row) any { return &r.Queue },
	"state":            func(r *row) any { return &r.State },
	"priority":         func(r *row) any { return &r.Priority },
	"run_at":           func(r *row) any { return (*instant)(&r.RunAt) },
	"fence":            func(r *row) any { return &r.Fence },
	"lease_until":      func(r *row) any { return (*instantOrNone)(&r.LeaseUntil) },
	"attempts":         func(r *row) any { return &r.Failures },
	"max_attempts":     func(r *row) any { return &r.MaxAttempts },
	"created_at":       func(r *row) any { return (*instant)(&r.CreatedAt) },
	"started_at":       func(r *row) any { return (*instantOrNone)(&r.StartedAt) },
	"claimed_at":       func(r *row) any { return (*instantOrNone)(&r.ClaimedAt) },
	"finished_at":      func(r *row) any { return (*instantOrNone)(&r.FinishedAt) },
	"failed_at":        func(r *row) any { return (*instantOrNone)(&r.FailedAt) },
	"cancel_requested": func(r *row) any { return (*instantOrNone)(&r.CancelRequestedAt) },
	"refusals":         func(r *row) any { return &r.Refusals },
	"refused_at":       func(r *row) any { return (*instantOrNone)(&r.RefusedAt) },
	"refused_reason":   func(r *row) any { return &r.RefusedReason },
	"reason":           func(r *row) any { return &r.Reason },
	"worker":           func(r *row) any { return &r.Worker },
	"type":             func(r *row) any { return &r.Type },
	"timeout":          func(r *row) any { return &r.Timeout },
	"unique_key":       func(r *row) any { return &r.UniqueKey },
	"unique_for":       func(r *row) any { return &r.uniqueFor },
	"meta":             func(r *row) any { return &r.meta },
	"last_error":       func(r *row) any { return &r.LastError },
	"payload":          func(r *row) any { return &r.Payload },
	"output":           func(r *row) any { return &r.Output },
	"ran_at":           func(r *row) any { return (*instantOrNone)(&r.ran) },
	"cause":            func(r *row) any { return &r.Cause },
	"waits_for":        func(r *row) any { return &r.WaitsFor },
	"needed":           func(r *row) any { return &r.needed },
	flowColumn:         func(r *row) any { return &r.Flow },
	nodeColumn:         func(r *row) any { return &r.Node },
}

// entry is a job during an operation, with the rows to add to its history.
type entry struct {
	job.Record
	seq      int64
	was      job.State // when it was read
	causeWas string
	living   bool      // its unique key, if any, is held for its life, not for a window
	ran      time.Time // when the attempt began that completed the job without a row in the history
	changed  bool
	rows     []job.Attempt
	needed   job.Needed // before it moved
}

// entry turns a row into a job.
func (r *row) entry() (*entry, error) {
	e := &entry{Record: r.Record, seq: r.seq, was: r.State, causeWas: r.Cause, living: r.uniqueFor == 0, ran: r.ran, needed: job.Needed(r.needed)}
	if len(r.meta) > 0 {
		if err := json.Unmarshal(r.meta, &e.Meta); err != nil {
			return nil, fmt.Errorf("metadata of job %s: %w", r.ID, err)
		}
	}
	return e, nil
}

// completion returns the history row of the attempt that completed the job if only the job's own row describes it.
func (e *entry) completion() []job.Attempt {
	if e.ran.IsZero() {
		return nil
	}
	return []job.Attempt{{
		Number: e.Failures + 1, Fence: e.Fence, Kind: job.KindComplete, Worker: e.Worker, Started: e.ran, Finished: e.FinishedAt,
		Outcome: job.AttemptCompleted, Reason: e.Reason, Count: 1,
	}}
}

// micros keeps the zero time as 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// instant is a time that is scanned from microseconds.
type instant time.Time

// Scan implements sql.Scanner.
func (t *instant) Scan(v any) error {
	us, ok := v.(int64)
	if !ok {
		return fmt.Errorf("%v are not microseconds", v)
	}
	*t = instant(time.UnixMicro(us).UTC())
	return nil
}

// instantOrNone is an instant whose 0 is the zero time.
type instantOrNone time.Time

// Scan implements sql.Scanner.
func (t *instantOrNone) Scan(v any) error {
	if v == int64(0) {
		*t = instantOrNone{}
		return nil
	}
	return (*instant)(t).Scan(v)
}

func metaText(meta map[string]string) (any, error) {
	if len(meta) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(meta)
	return string(text), err
}

// now is the store's clock: this machine's, which all processes on the file share.
func now() time.Time { return job.Stamp(time.Now()) }

// read returns the jobs that a condition selects, in the order that it gives.
func read(q querier, c columns, from string, args ...any) ([]*entry, error) {
	var list []*entry
	var r row
	err := each(q, selection{text: `SELECT ` + c.String() + ` FROM tenet_job ` + from, args: args, into: c.into(&r)}, func() error {
		e, err := r.entry()
		list = append(list, e)
		return err
	})
	return list, err
}

var saveSQL = newBulk(18, `WITH v (seq, state, run_at, lease_until, attempts, started_at, finished_at, failed_at, cancel_requested, refusals, refused_at,
refused_reason, reason, last_error, output, cause, waits_for, needed) AS (VALUES `, `)
UPDATE tenet_job SET state = v.state, run_at = v.run_at, lease_until = v.lease_until, attempts = v.attempts, started_at = v.started_at,
finished_at = v.finished_at, failed_at = v.failed_at, cancel_requested = v.cancel_requested, refusals = v.refusals, refused_at = v.refused_at,
refused_reason = v.refused_reason, reason = v.reason, last_error = v.last_error, output = v.output, cause = v.cause, waits_for = v.waits_for, needed = v.needed, ran_at = 0
FROM v WHERE tenet_job.seq = v.seq`)

var historySQL = newBulk(14, `INSERT INTO tenet_attempt (job, part, number, fence, kind, worker, started, finished, outcome, reason, error, stack, delay,
count) VALUES `, ``)

// save writes what transitions have changed: the jobs, their history, and the unique keys of those that have ended.
func save(q querier, list []*entry) error {
	jobs, history := make([]any, 0, len(list)*saveSQL.width), make([]any, 0, len(list)*historySQL.width)
	var ended, inFlows []*entry
	counts, died := totals{}, causes{}
	for _, e := range list {
		if !e.changed {
			continue
		}
		counts.moved(e.Queue, e.was, e.State, e.rows)
		died.move(e)
		jobs = append(jobs, e.seq, string(e.State), e.RunAt.UnixMicro(), micros(e.LeaseUntil), int64(e.Failures), micros(e.StartedAt), micros(e.FinishedAt),
			micros(e.FailedAt), micros(e.CancelRequestedAt), int64(e.Refusals), micros(e.RefusedAt), string(e.RefusedReason), string(e.Reason), e.LastError, blob(e.Output), e.Cause, e.WaitsFor, int64(e.needed.Ended(e.State)))
		for _, a := range e.rows {
			part := 2 * e.Fence
			if a.Outcome == job.AttemptRefused {
				part--
			}
			history = append(history, e.seq, part, int64(a.Number), a.Fence, string(a.Kind), a.Worker, micros(a.Started), micros(a.Finished), string(a.Outcome),
				string(a.Reason), a.Error, a.Stack, int64(a.Delay), int64(a.Count))
		}
		if e.needed != job.NotInFlow && e.State != e.was {
			inFlows = append(inFlows, e)
		}
		switch {
		case e.State == job.Ready:
			q.changed()
		case e.State.Finished() && e.UniqueKey != "":
			ended = append(ended, e)
		}
	}
	if err := saveSQL.exec(q, jobs); err != nil {
		return err
	}
	if err := historySQL.exec(q, history); err != nil {
		return err
	}
	if err := q.count(counts, died); err != nil {
		return err
	}
	if err := pass(q, movesOf(list), time.Time{}); err != nil {
		return err
	}
	if err := releaseKeys(q, ended); err != nil {
		return err
	}
	return flowsMoved(q, inFlows)
}

// blob keeps an absent value NULL.
func blob(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// list is a JSON array, which statements take apart with json_each: one parameter for any number of values.
func list[T any, V string | int64](of []T, value func(T) V) string {
	text, _ := json.Marshal(lists.Map(of, value)) // cannot fail for strings and integers
	return string(text)
}

func seqOf(e *entry) int64   { return e.seq }
func refID(r job.Ref) string { return r.ID }
func itself[T any](v T) T    { return v }
