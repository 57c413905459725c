package postgres

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/paging"
	"github.com/tenetdev/tenet/job"
)

// Audit is an audit sink and source in PostgreSQL, for any number of processes. It stores each event once, however often
// it is appended, and reads them in the order in which they were committed. It is safe for concurrent use.
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

// Audit returns a new handle on the database's audit events.
func (db *DB) Audit() *Audit { return &Audit{db: db} }

// Batches are stored one after the other, each under a lock until it is committed. Positions thus become visible in order, and
// a reader that continues after the last position that it saw misses nothing.
const appendEventsSQL = `
INSERT INTO {{schema}}.audit (event_id, chain_id, seq, hash, event_type, category, work_id, time, line)
SELECT event_id, chain_id, seq, hash, event_type, category, work_id, time, line
FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[], $9::bytea[])
    WITH ORDINALITY AS e(event_id, chain_id, seq, hash, event_type, category, work_id, time, line, ord)
ORDER BY ord
ON CONFLICT (event_id) DO NOTHING`

// maxWorkID bounds the indexed prefix of a work ID, in bytes: an index entry can hold about 2,700.
const maxWorkID = 1000

// Append implements audit.Sink. A batch is one transaction and one round trip.
func (a *Audit) Append(ctx context.Context, entries []audit.Entry) error {
	if a.closed.Load() {
		return job.ErrClosed
	}
	if len(entries) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	a.queue(b, entries)
	return a.db.run(ctx, "audit: append", b)
}

func (a *Audit) queue(b *pgx.Batch, entries []audit.Entry) {
	b.Queue(`SELECT pg_advisory_xact_lock($1)`, a.db.lockKey("audit"))
	b.Queue(a.db.sql(appendEventsSQL), eventColumns(entries)...)
}

func eventColumns(entries []audit.Entry) []any {
	n := len(entries)
	ids, chains, lines, seqs := make([][]byte, n), make([][]byte, n), make([][]byte, n), make([]int64, n)
	hashes, types, times := make([]string, n), make([]string, n), make([]pgtype.Timestamptz, n)
	categories, works := make([]pgtype.Text, n), make([]pgtype.Text, n)
	for i, entry := range entries {
		e := entry.Event
		ids[i], chains[i], lines[i], seqs[i] = []byte(e.ID), []byte(e.ChainID), entry.Line, int64(e.Seq)
		hashes[i], types[i] = job.CleanText(e.Hash), job.CleanText(string(e.Type))
		times[i] = pgtype.Timestamptz{Time: job.Stamp(e.Time), Valid: true}
		categories[i], works[i] = text(e.Category), text(e.WorkID[:min(len(e.WorkID), maxWorkID)])
	}
	return []any{ids, chains, seqs, hashes, types, categories, works, times, lines}
}

// headsSQL steps through the index from chain to chain.
const headsSQL = `
WITH RECURSIVE chain (id) AS (
    (SELECT chain_id FROM {{schema}}.audit ORDER BY chain_id, seq LIMIT 1)
    UNION ALL
    SELECT (SELECT chain_id FROM {{schema}}.audit WHERE chain_id > chain.id ORDER BY chain_id, seq LIMIT 1) FROM chain WHERE chain.id IS NOT NULL
)
SELECT chain.id, last.seq, last.hash
FROM chain, LATERAL (SELECT seq, hash FROM {{schema}}.audit WHERE chain_id = chain.id ORDER BY chain_id DESC, seq DESC LIMIT 1) last
ORDER BY chain.id`

// Heads implements audit.Sink. Its cost grows with the number of chains, not of events.
func (a *Audit) Heads(ctx context.Context) ([]audit.Head, error) {
	if a.closed.Load() {
		return nil, job.ErrClosed
	}
	var heads []audit.Head
	b := steadyBatch()
	var chain []byte
	var seq int64
	var hash string
	each(b.Queue(a.db.sql(headsSQL)), []any{&chain, &seq, &hash}, func() error {
		heads = append(heads, audit.Head{ChainID: string(chain), Seq: uint64(seq), Hash: hash})
		return nil
	})
	err := a.db.run(ctx, "audit: heads", b)
	return heads, err
}

const readEventsSQL = `SELECT position, line FROM {{schema}}.audit WHERE position > $1 ORDER BY position LIMIT $2`

// Read implements audit.Source. It also returns events that are appended while it reads, and holds no connection while it
// calls f.
func (a *Audit) Read(ctx context.Context, after string, f func(cursor string, line []byte) error) error {
	page := func(after int64, limit int) ([]paging.Line, error) {
		return a.lines(ctx, readEventsSQL, []any{after, limit})
	}
	return paging.Lines(ctx, after, page, f)
}

func (a *Audit) lines(ctx context.Context, text string, args []any) (page []paging.Line, err error) {
	if a.closed.Load() {
		return nil, job.ErrClosed
	}
	b := steadyBatch()
	var line paging.Line
	gather(b.Queue(a.db.sql(text), args...), []any{&line.Position, &line.Text}, &line, &page)
	err = a.db.run(ctx, "audit: read", b)
	return page, err
}

// findSQL reads backwards through the index that a query names.
func findSQL(q audit.Query) (s selection) {
	s.text = `SELECT position, line FROM {{schema}}.audit WHERE `
	if q.WorkID != "" {
		s.text += `work_id = ` + s.arg(text(q.WorkID[:min(len(q.WorkID), maxWorkID)])) + ` AND work_id IS NOT NULL AND `
	}
	if q.Type != "" {
		s.text += `event_type = ` + s.arg(string(q.Type)) + ` AND event_type IN ('policy_snapshot', 'policy_changed', 'operator_action') AND `
	}
	return s
}

// Find implements audit.Finder. It holds no connection while it calls f. IDs of work that share their first 1,000 bytes are
// not told apart.
func (a *Audit) Find(ctx context.Context, q audit.Query, f func(cursor string, line []byte) error) error {
	if err := q.Check(); err != nil {
		return err
	}
	page := func(before int64, limit int) ([]paging.Line, error) {
		s := findSQL(q)
		s.text += `position < ` + s.arg(before) + ` ORDER BY position DESC LIMIT ` + s.arg(limit)
		return a.lines(ctx, s.text, s.args)
	}
	return paging.LinesBefore(ctx, q.Before, page, f)
}

// Tail implements audit.Tailer.
func (a *Audit) Tail(ctx context.Context) (cursor string, err error) {
	if a.closed.Load() {
		return "", job.ErrClosed
	}
	b := steadyBatch()
	var last int64
	each(b.Queue(a.db.sql(`SELECT position FROM {{schema}}.audit ORDER BY position DESC LIMIT 1`)), []any{&last}, func() error {
		cursor = strconv.FormatInt(last, 10)
		return nil
	})
	err = a.db.run(ctx, "audit: tail", b)
	return cursor, err
}

// Close ends the use of this handle. The database stays open.
func (a *Audit) Close() error {
	a.closed.Store(true)
	return nil
}
