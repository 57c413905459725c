package sqlite

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/job"
)

// Audit is an audit sink and source in an SQLite file, for any number of processes on one machine. It stores each event
// once, however often it is appended, and reads them in the order in which they were committed. It is safe for concurrent
// use.
type Audit struct {
	db     *DB
	closed atomic.Bool
}

var (
	_ audit.Sink   = (*Audit)(nil)
	_ audit.Source = (*Audit)(nil)
	_ audit.Tailer = (*Audit)(nil)
	_ audit.Finder = (*Audit)(nil)
)

// Audit returns a new handle on the file's audit events.
func (db *DB) Audit() *Audit { return &Audit{db: db} }

var appendEventsSQL = newBulk(9, `INSERT INTO tenet_audit (event_id, chain_id, seq, hash, event_type, category, work_id, time, line) VALUES `,
	` ON CONFLICT (event_id) DO NOTHING`)

// Append implements audit.Sink. A batch is one transaction, together with whatever else is written at the same time.
func (a *Audit) Append(ctx context.Context, entries []audit.Entry) error {
	if a.closed.Load() {
		return job.ErrClosed
	}
	if len(entries) == 0 {
		return nil
	}
	args := make([]any, 0, len(entries)*appendEventsSQL.width)
	for _, entry := range entries {
		e := entry.Event
		args = append(args, e.ID, e.ChainID, int64(e.Seq), e.Hash, string(e.Type), e.Category, e.WorkID, e.Time.UnixMicro(), entry.Line)
	}
	return a.db.jobs.write(ctx, "audit: append", func(q querier) error {
		return appendEventsSQL.exec(q, args)
	})
}

// headsSQL steps through the index from chain to chain.
const headsSQL = `WITH RECURSIVE chain (id) AS (
SELECT min(chain_id) FROM tenet_audit
UNION ALL
SELECT (SELECT min(chain_id) FROM tenet_audit WHERE chain_id > chain.id) FROM chain WHERE chain.id IS NOT NULL
)
SELECT e.chain_id, e.seq, e.hash FROM chain
JOIN tenet_audit e ON e.position = (SELECT position FROM tenet_audit WHERE chain_id = chain.id ORDER BY seq DESC LIMIT 1) ORDER BY e.chain_id`

// Heads implements audit.Sink. Its cost grows with the number of chains, not of events.
func (a *Audit) Heads(ctx context.Context) ([]audit.Head, error) {
	if a.closed.Load() {
		return nil, job.ErrClosed
	}
	var head audit.Head
	return viewed(ctx, a.db.jobs, "audit: heads", func(q querier) ([]audit.Head, error) {
		return all(q, selection{text: headsSQL, into: []any{&head.ChainID, &head.Seq, &head.Hash}}, &head)
	})
}

const readEventsSQL = `SELECT position, line FROM tenet_audit WHERE position > ? ORDER BY position LIMIT ? + 0`

// Read implements audit.Source. It also returns events that are appended while it reads, and holds no connection while it
// calls f.
func (a *Audit) Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error {
	page := func(after int64, limit int) ([]paging.Line, error) {
		return a.lines(ctx, readEventsSQL, []any{after, limit})
	}
	return paging.Lines(ctx, after, page, f)
}

func (a *Audit) lines(ctx context.Context, text string, args []any) ([]paging.Line, error) {
	if a.closed.Load() {
		return nil, job.ErrClosed
	}
	var line paging.Line
	return viewed(ctx, a.db.jobs, "audit: read", func(q querier) ([]paging.Line, error) {
		return all(q, selection{text: text, args: args, into: []any{&line.Position, &line.Text}}, &line)
	})
}

// findSQL reads backwards through the index that a query names.
func findSQL(q audit.Query) (text string, args []any) {
	text = `SELECT position, line FROM tenet_audit `
	switch {
	case q.WorkID != "":
		text, args = text+`INDEXED BY tenet_audit_work WHERE work_id = ? AND work_id <> '' AND `, append(args, q.WorkID)
		if q.Type != "" {
			text, args = text+`event_type = ? AND `, append(args, string(q.Type))
		}
	case q.Type != "":
		text += `INDEXED BY tenet_audit_rare WHERE event_type = ? AND event_type IN ('policy_snapshot', 'policy_changed', 'operator_action') AND `
		args = append(args, string(q.Type))
	default:
		text += `WHERE `
	}
	return text + `position < ? ORDER BY position DESC LIMIT ? + 0`, args
}

// Find implements audit.Finder. It holds no connection while it calls f.
func (a *Audit) Find(ctx context.Context, q audit.Query, f func(cursor string, line []byte) error) error {
	if err := q.Check(); err != nil {
		return err
	}
	text, args := findSQL(q)
	page := func(before int64, limit int) ([]paging.Line, error) {
		return a.lines(ctx, text, append(slices.Clone(args), before, limit))
	}
	return paging.LinesBefore(ctx, q.Before, page, f)
}

// Tail implements audit.Tailer.
func (a *Audit) Tail(ctx context.Context) (cursor string, err error) {
	if a.closed.Load() {
		return "", job.ErrClosed
	}
	var last int64
	err = a.db.jobs.view(ctx, "audit: tail", func(q querier) error {
		return one(q, selection{text: `SELECT position FROM tenet_audit ORDER BY position DESC LIMIT 1`, into: []any{&last}})
	})
	if last > 0 {
		cursor = strconv.FormatInt(last, 10)
	}
	return cursor, err
}

// Close ends the use of this handle. The file stays open.
func (a *Audit) Close() error {
	a.closed.Store(true)
	return nil
}
