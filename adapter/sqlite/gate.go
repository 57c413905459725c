package sqlite

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/tenetdev/tenet/job"
)

// gate is the limits of the store in one transaction, with what has happened to jobs that have limits and has not been applied
// to their buckets yet.
type gate struct {
	inForce *job.Gate
	used    bool // there are buckets
	work    bool // a change of limits has left work
	events  job.GateEvents
}

const (
	gateSQL   = `SELECT (SELECT count(*) FROM tenet_job_limit), EXISTS (SELECT 1 FROM tenet_bucket), EXISTS (SELECT 1 FROM tenet_gate_work)`
	limitsSQL = `SELECT queue, type, name, number, data FROM tenet_job_limit ORDER BY queue, type, name`
)

func readGate(q querier) (*gate, error) {
	g := &gate{inForce: job.NewGate(nil)}
	limits := 0
	err := one(q, selection{text: gateSQL, into: []any{&limits, &g.used, &g.work}})
	if err != nil || limits == 0 {
		return g, err
	}
	list, err := readLimits(q)
	g.inForce = job.NewGate(list)
	return g, err
}

func readLimits(q querier) (list []job.StoredLimit, err error) {
	var name job.LimitName
	var number int64
	var data string
	err = each(q, selection{text: limitsSQL, into: []any{&name.Queue, &name.Type, &name.Name, &number, &data}}, func() error {
		l := job.StoredLimit{ID: number}
		err := json.Unmarshal([]byte(data), &l.LimitState)
		l.LimitName = name
		list = append(list, l)
		return err
	})
	return list, err
}

// active reports whether jobs may have limits or places.
func (g *gate) active() bool { return g.used || !g.inForce.Empty() }

// move is a job that has gone from one state to another; it is in it already.
type move struct {
	id, queue, jobType string
	from, to           job.State
}

const gatedSQL = `SELECT id, places, needs, coalesce(line, ''), priority, run_at, created_at FROM tenet_gated `

// readGated reads rows of tenet_gated.
func readGated(q querier, from string, args ...any) (list []*job.Entrant, err error) {
	var places, needs string
	var e job.Entrant
	into := []any{&e.ID, &places, &needs, &e.Line, &e.Priority, (*instant)(&e.RunAt), (*instant)(&e.CreatedAt)}
	err = each(q, selection{text: gatedSQL + from, args: args, into: into}, func() error {
		found := e
		list = append(list, &found)
		return errors.Join(json.Unmarshal([]byte(places), &found.Holds), json.Unmarshal([]byte(needs), &found.Needs))
	})
	return list, err
}

// gatedByID reads the rows of jobs. The IDs are a JSON array.
func gatedByID(q querier, ids string) (map[string]*job.Entrant, error) {
	rows, err := readGated(q, `WHERE id IN (SELECT value FROM json_each(?))`, ids)
	known := make(map[string]*job.Entrant, len(rows))
	for _, r := range rows {
		known[r.ID] = r
	}
	return known, err
}

// pass notes what the moves of jobs mean for their places. A job with limits that has become ready is at the gate until that
// is tended: at the latest by the commit, and before anything else in the transaction looks at where jobs are.
func pass(q querier, moves []move, at time.Time) error {
	g, err := q.gate()
	if err != nil || len(moves) == 0 || !g.active() {
		return err
	}
	var known map[string]*job.Entrant
	if g.used {
		if known, err = gatedByID(q, list(moves, func(m move) string { return m.id })); err != nil {
			return err
		}
	}
	var gone []string
	var kept []any
	var arrived []string
	for _, m := range moves {
		r := known[m.id]
		if r != nil && m.to == job.Running {
			g.events.Start(r.Holds, at)
		} else if r != nil {
			if r.Holds = g.events.Leave(m.from, m.to, r.Line, r.Holds); len(r.Holds) == 0 {
				gone = append(gone, m.id)
			} else {
				kept = append(kept, m.id, list(r.Holds, itself))
			}
		}
		if m.to == job.Ready && m.from != job.Ready && (g.inForce.Bounds(m.queue, m.jobType) || r != nil && len(r.Holds) > 0) {
			arrived = append(arrived, m.id)
		}
	}
	if len(gone) > 0 {
		if err := q.exec(ungateSQL, list(gone, itself)); err != nil {
			return err
		}
	}
	if err := keepSQL.exec(q, kept); err != nil {
		return err
	}
	return arrive(q, arrived)
}

const ungateSQL = `DELETE FROM tenet_gated WHERE id IN (SELECT value FROM json_each(?))`

// keepSQL stores the places that jobs keep through a retry.
var keepSQL = newBulk(2, `UPDATE tenet_gated SET places = v.column2, needs = '[]', line = NULL FROM (VALUES `, `) AS v WHERE tenet_gated.id = v.column1`)

// removed is where a deleted job goes.
const removed job.State = ""

// arrive brings ready jobs to the gate.
func arrive(q querier, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	g, err := q.gate()
	if err != nil {
		return err
	}
	jobs, err := read(q, arriveColumns, byIDSQL, list(ids, itself))
	if err != nil {
		return err
	}
	known, err := gatedByID(q, list(ids, itself))
	if err != nil {
		return err
	}
	for _, e := range jobs {
		var places []string
		if r := known[e.ID]; r != nil {
			places = r.Holds
		}
		g.came(&e.Record, places)
	}
	return nil
}

var arriveColumns = columns{"id", "queue", "type", "priority", "run_at", "created_at", "meta", "payload"}

// came notes that a job has come to the gate.
func (g *gate) came(r *job.Record, places []string) {
	g.events.Arrived = append(g.events.Arrived, g.inForce.Entrant(r, places))
}

// A plus before a column keeps its index from being used: with statistics of a time when few jobs were ready, SQLite would read all that
// are ready now instead of the named ones.
const (
	dueBucketsSQL = `SELECT name FROM tenet_bucket INDEXED BY tenet_bucket_due WHERE due > 0 AND due <= ? ORDER BY due LIMIT 1000`
	bucketsSQL    = `SELECT name, held, unstarted, waiting, next FROM tenet_bucket WHERE name IN (SELECT value FROM json_each(?))`
	lineSQL       = `INDEXED BY tenet_gated_line WHERE line = ? ORDER BY rank, since, id LIMIT ? + 0`
	dropBucketSQL = `DELETE FROM tenet_bucket WHERE name IN (SELECT value FROM json_each(?))`
	moreSQL       = `INSERT OR IGNORE INTO tenet_gate_work (kind, what, position) SELECT 'bucket', value, '' FROM json_each(?)`
	letGoSQL      = `UPDATE tenet_job SET state = 'ready', waits_for = '' WHERE id IN (SELECT value FROM json_each(?)) AND +state = 'waiting' RETURNING queue`
)

var (
	putBucketSQL = newBulk(6, `INSERT OR REPLACE INTO tenet_bucket (name, held, unstarted, waiting, next, due) VALUES `, ``)
	putGatedSQL  = newBulk(9, `INSERT OR REPLACE INTO tenet_gated (id, places, needs, line, rank, since, priority, run_at, created_at) VALUES `, ``)
	heldBackSQL  = `SELECT queue FROM tenet_job WHERE id IN (SELECT value FROM json_each(?)) AND +state = 'ready'`
)

// gateReader is the store as its gate reads it.
type gateReader struct{ q querier }

// Buckets implements job.GateStore.
func (r gateReader) Buckets(names []string) (found []*job.Bucket, err error) {
	var b job.Bucket
	into := []any{&b.Name, &b.Held, &b.Unstarted, &b.Waiting, (*instantOrNone)(&b.Next)}
	err = each(r.q, selection{text: bucketsSQL, args: []any{list(names, itself)}, into: into}, func() error {
		one := b
		found = append(found, &one)
		return nil
	})
	return found, err
}

// Lines implements job.GateStore.
func (r gateReader) Lines(first map[string]int) (found []*job.Entrant, err error) {
	for name, n := range first {
		rows, err := readGated(r.q, lineSQL, name, n)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
	}
	return found, nil
}

// tend gives free places to those who come next, in the transaction that freed them.
func tend(q querier, at time.Time) error {
	g, err := q.gate()
	if err != nil || !g.active() && g.events.Empty() {
		return err
	}
	due, err := column[string](q, dueBucketsSQL, at.UnixMicro())
	g.events.Touched = append(g.events.Touched, due...)
	if err != nil || g.events.Empty() {
		return err
	}
	g.used = true
	for range tendRounds {
		events := g.events
		g.events = job.GateEvents{}
		done, err := g.inForce.Tend([]job.GateEvents{events}, gateReader{q}, at)
		if err != nil {
			return err
		}
		if err := writeEntrants(q, g.inForce, done); err != nil {
			return err
		}
		if err := writeBuckets(q, g.inForce, done.Buckets, at); err != nil {
			return err
		}
		if g.events.Touched = done.More; len(done.More) == 0 {
			return nil
		}
	}
	more := list(g.events.Touched, itself)
	g.events, g.work = job.GateEvents{}, true
	return q.exec(moreSQL, more)
}

// tendRounds bounds the steps of one transaction; maintenance takes the others.
const tendRounds = 4

func writeBuckets(q querier, g *job.Gate, buckets []*job.Bucket, at time.Time) error {
	var rows []any
	var idle []string
	for _, b := range buckets {
		if b.Idle(at) {
			idle = append(idle, b.Name)
			continue
		}
		rows = append(rows, b.Name, int64(b.Held), int64(b.Unstarted), int64(b.Waiting), micros(b.Next), micros(g.Due(b, at)))
	}
	if err := putBucketSQL.exec(q, rows); err != nil || len(idle) == 0 {
		return err
	}
	return q.exec(dropBucketSQL, list(idle, itself))
}

// writeEntrants moves jobs between ready and waiting. All of them are in one of the two.
func writeEntrants(q querier, g *job.Gate, done *job.GateResult) error {
	counts := totals{}
	var rows, waits []any
	count := func(text string, ids []string, from, to job.State) error { // a statement that returns the queues of jobs
		queues, err := column[string](q, text, list(ids, itself))
		for _, queue := range queues {
			counts.move(queue, from, to, 1)
		}
		return err
	}
	add := func(e *job.Entrant, places []string, line any) {
		rank, since := 0, time.Time{}
		if line != nil {
			rank, since = e.Rank()
		}
		rows = append(rows, e.ID, list(places, itself), list(e.Needs, itself), line, int64(rank), micros(since), int64(e.Priority), e.RunAt.UnixMicro(), e.CreatedAt.UnixMicro())
	}
	var admitted, unbounded, lined []string
	for _, e := range done.Admitted {
		admitted = append(admitted, e.ID)
		if len(e.Needs) == 0 {
			unbounded = append(unbounded, e.ID)
			continue
		}
		add(e, e.Needs, nil)
	}
	if len(admitted) > 0 {
		if err := count(letGoSQL, admitted, job.Waiting, job.Ready); err != nil {
			return err
		}
		q.changed()
	}
	for _, e := range done.Lined {
		add(e, e.Holds, e.Line)
		lined, waits = append(lined, e.ID), append(waits, e.ID, g.WaitsFor(e.Line))
	}
	if len(lined) > 0 {
		if err := count(heldBackSQL, lined, job.Ready, job.Waiting); err != nil {
			return err
		}
	}
	if err := waitSQL.exec(q, waits); err != nil {
		return err
	}
	if err := putGatedSQL.exec(q, rows); err != nil {
		return err
	}
	if len(unbounded) > 0 {
		if err := q.exec(ungateSQL, list(unbounded, itself)); err != nil {
			return err
		}
	}
	return q.count(counts, nil)
}

// waitSQL makes jobs wait.
var waitSQL = newBulk(2, `UPDATE tenet_job SET state = 'waiting', waits_for = v.column2 FROM (VALUES `, `) AS v WHERE tenet_job.id = v.column1`)

// movesOf lists the moves of changed jobs.
func movesOf(changed []*entry) (moves []move) {
	for _, e := range changed {
		if e.changed && e.was != e.State {
			moves = append(moves, move{e.ID, e.Queue, e.Type, e.was, e.State})
		}
	}
	return moves
}

// atGate reports whether new jobs of a queue and type have limits.
func (g *gate) atGate(r *job.Record) bool {
	return r.State == job.Ready && g.inForce.Bounds(r.Queue, r.Type)
}
