package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
	"github.com/tenetdev/tenet/policy"
)

var _ job.Limiter = (*Jobs)(nil)

// Limits implements job.Limiter.
func (s *Jobs) Limits(ctx context.Context) ([]job.LimitState, error) {
	list, err := viewed(ctx, s, "limits", readLimits)
	return lists.Map(list, func(l job.StoredLimit) job.LimitState { return l.LimitState }), err
}

// SetLimit implements job.Limiter. When it changes the buckets of jobs or lowers a number, it looks at every job of the store
// once, in steps of 10,000, between which others write. If ctx ends before the last step, maintenance goes on.
func (s *Jobs) SetLimit(ctx context.Context, setting job.LimitSetting) error {
	if err := setting.Check(); err != nil {
		return err
	}
	return s.changeLimits(ctx, "set limit", func(old []job.StoredLimit, next func() int64) (job.LimitChanges, error) {
		return job.ApplySetting(old, setting, next)
	})
}

// PublishLimits implements job.Limiter, with the steps of SetLimit.
func (s *Jobs) PublishLimits(ctx context.Context, scopes []policy.LimitScope) error {
	return s.changeLimits(ctx, "publish limits", func(old []job.StoredLimit, next func() int64) (job.LimitChanges, error) {
		return job.ApplyDocument(old, scopes, next), nil
	})
}

const (
	putLimitSQL  = `INSERT OR REPLACE INTO tenet_job_limit (queue, type, name, number, data) VALUES (?, ?, ?, ?, ?)`
	dropLimitSQL = `DELETE FROM tenet_job_limit WHERE queue = ? AND type = ? AND name = ?`
	addWorkSQL   = `INSERT OR REPLACE INTO tenet_gate_work (kind, what, position) VALUES (?, ?, ?)`
)

// The kinds of work that a change of limits leaves.
const (
	workBucket = "bucket" // what: a bucket
	workLimit  = "limit"  // what: the beginning of the names of a limit's buckets
	workJobs   = "jobs"   // what: a job.LimitName without a name, as JSON
)

func (s *Jobs) changeLimits(ctx context.Context, what string, change func([]job.StoredLimit, func() int64) (job.LimitChanges, error)) error {
	var refused error
	err := s.write(ctx, what, func(q querier) error {
		if err := tend(q, now()); err != nil { // what others did in this transaction, under the limits of that time
			return err
		}
		old, err := readLimits(q)
		if err != nil {
			return err
		}
		last := int64(0)
		err = one(q, selection{text: `SELECT last FROM tenet_job_limit_number`, into: []any{&last}})
		if err != nil {
			return err
		}
		var changes job.LimitChanges
		changes, refused = change(old, func() int64 { last++; return last })
		if refused != nil {
			return nil //nolint:nilerr // nothing is written, and the caller gets refused
		}
		return putLimits(q, changes, last)
	})
	for more := err == nil && refused == nil; more && err == nil; {
		err = s.write(ctx, what, func(q querier) (err error) {
			more, err = gateStep(q)
			return err
		})
	}
	return cmp.Or(refused, err)
}

func putLimits(q querier, c job.LimitChanges, last int64) error {
	for _, l := range c.Put {
		data, err := json.Marshal(l.LimitState)
		if err != nil {
			return err
		}
		if err := q.exec(putLimitSQL, l.Queue, l.Type, l.Name, l.ID, string(data)); err != nil {
			return err
		}
	}
	for _, n := range c.Drop {
		if err := q.exec(dropLimitSQL, n.Queue, n.Type, n.Name); err != nil {
			return err
		}
	}
	if err := q.exec(`UPDATE tenet_job_limit_number SET last = ?`, last); err != nil {
		return err
	}
	q.refreshGate()
	g, err := q.gate()
	if err != nil {
		return err
	}
	for _, id := range c.Touch {
		if err := q.exec(addWorkSQL, workLimit, g.inForce.Prefix(id), ""); err != nil {
			return err
		}
	}
	for _, n := range c.Gate {
		n.Name = ""
		scope, err := json.Marshal(n)
		if err != nil {
			return err
		}
		if err := q.exec(addWorkSQL, workJobs, string(scope), "0"); err != nil {
			return err
		}
	}
	q.refreshGate()
	return nil
}

const (
	nextWorkSQL  = `SELECT kind, what, position FROM tenet_gate_work ORDER BY kind, what LIMIT 1`
	endWorkSQL   = `DELETE FROM tenet_gate_work WHERE kind = ? AND what = ?`
	limitPageSQL = `SELECT name FROM tenet_bucket WHERE name > ?1 AND name >= ?2 AND name < ?2 || char(1114111) ORDER BY name LIMIT 1000`
	jobsPageSQL  = `WHERE seq > ?1 AND seq <= ?2 AND state IN ('waiting', 'ready', 'running') AND (queue = ?3 OR type = ?4)`
	unlineSQL    = `UPDATE tenet_gated SET line = NULL WHERE id IN (SELECT value FROM json_each(?))`
	nextJobSQL   = `SELECT coalesce(min(seq), 0) FROM tenet_job WHERE seq > ?`
	// gateRows is how many jobs a step looks at, at most.
	gateRows = 10_000
)

// gateStep does a part of the work that a change of limits has left, and reports whether there is more.
func gateStep(q querier) (more bool, err error) {
	g, err := q.gate()
	if err != nil || !g.work {
		return false, err
	}
	if err := tend(q, now()); err != nil { // jobs that have just come are not to come again
		return false, err
	}
	var kind, what, position string
	found := false
	err = each(q, selection{text: nextWorkSQL, into: []any{&kind, &what, &position}}, func() error { found = true; return nil })
	if err != nil || !found {
		g.work = found
		return false, err
	}
	next := ""
	switch kind {
	case workBucket:
		g.events.Touched = append(g.events.Touched, what)
	case workLimit:
		next, err = g.touchLimit(q, what, position)
	case workJobs:
		next, err = g.again(q, what, position)
	}
	if err != nil {
		return false, err
	}
	if next == "" {
		err = q.exec(endWorkSQL, kind, what)
	} else {
		err = q.exec(addWorkSQL, kind, what, next)
	}
	if err == nil {
		err = tend(q, now())
	}
	return true, err
}

// touchLimit touches the next buckets of a limit and returns the position behind them, "" at the end.
func (g *gate) touchLimit(q querier, prefix, after string) (next string, err error) {
	names, err := column[string](q, limitPageSQL, after, prefix)
	g.events.Touched = append(g.events.Touched, names...)
	if len(names) == 1000 {
		next = names[999]
	}
	return next, err
}

// again gives the jobs of the next rows their buckets anew and returns the position behind them, "" at the end.
func (g *gate) again(q querier, scope, position string) (next string, err error) {
	var name job.LimitName
	if err := json.Unmarshal([]byte(scope), &name); err != nil {
		return "", err
	}
	from, _ := strconv.ParseInt(position, 10, 64)
	var following int64
	if err := one(q, selection{text: nextJobSQL, args: []any{from + gateRows}, into: []any{&following}}); err != nil {
		return "", err
	}
	jobs, err := read(q, againColumns, jobsPageSQL, from, from+gateRows, name.Queue, name.Type)
	if err != nil {
		return "", err
	}
	known, err := gatedByID(q, list(jobs, func(e *entry) string { return e.ID }))
	if err != nil {
		return "", err
	}
	var running []any
	var left []string
	for _, e := range jobs {
		r := known[e.ID]
		if r == nil {
			r = &job.Entrant{}
		}
		switch {
		case e.was == job.Running:
			needs := g.inForce.Needs(&e.Record)
			g.events.Replace(r.Holds, needs)
			running = append(running, e.ID, list(needs, itself), "[]", nil, int64(0), int64(0), int64(e.Priority), e.RunAt.UnixMicro(), e.CreatedAt.UnixMicro())
		case e.was == job.Ready:
			g.events.Dropped = append(g.events.Dropped, r.Holds...)
			g.came(&e.Record, nil)
		case r.Line != "":
			g.events.Left, left = append(g.events.Left, r.Line), append(left, e.ID)
			g.came(&e.Record, r.Holds)
		}
	}
	if len(left) > 0 {
		if err := q.exec(unlineSQL, list(left, itself)); err != nil {
			return "", err
		}
	}
	if err := putGatedSQL.exec(q, running); err != nil || following == 0 {
		return "", err
	}
	return strconv.FormatInt(following-1, 10), nil
}

var againColumns = append(arriveColumns[:len(arriveColumns):len(arriveColumns)], "state")

const bucketUseSQL = `SELECT name, held, waiting FROM tenet_bucket WHERE name >= ?1 AND name < ?1 || char(1114111) ORDER BY name`

// LimitUse implements job.Limiter.
func (s *Jobs) LimitUse(ctx context.Context, name job.LimitName, n int) (use job.LimitUse, err error) {
	err = s.view(ctx, "limit use", func(q querier) error {
		list, err := readLimits(q)
		if err != nil {
			return err
		}
		prefix, err := job.NewGate(list).PrefixOf(list, name)
		if err != nil || prefix == "" {
			return err
		}
		var b job.Bucket
		return each(q, selection{text: bucketUseSQL, args: []any{prefix}, into: []any{&b.Name, &b.Held, &b.Waiting}}, func() error {
			if strings.HasPrefix(b.Name, prefix) {
				use.Add(&b, n)
			}
			return nil
		})
	})
	use.Cut(n)
	return use, err
}

// nextPlace returns when a rate gives the next place, or zero.
func nextPlace(q querier) (at time.Time, err error) {
	const text = `SELECT due FROM tenet_bucket INDEXED BY tenet_bucket_due WHERE due > 0 ORDER BY due LIMIT 1`
	err = one(q, selection{text: text, into: []any{(*instant)(&at)}})
	return at, err
}
