package sqlite

import (
	"context"
	"fmt"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/job"
)

var _ job.Causer = (*Jobs)(nil)

// cause names a group of dead jobs.
type cause struct{ cause, queue, jobType string }

// deaths is a change of the number of dead jobs in a group. first and last are the times of deaths, 0 without any.
type deaths struct {
	count       int
	first, last int64
}

// causes are changes of the numbers of dead jobs by cause.
type causes map[cause]deaths

// move counts a job that is saved: one that died, or one that left the dead state.
func (c causes) move(e *entry) {
	if e.was == job.Dead {
		c.left(e)
	}
	if e.State == job.Dead {
		at := micros(e.FinishedAt)
		c.add(cause{e.Cause, e.Queue, e.Type}, deaths{1, at, at})
	}
}

// left counts a job that was dead.
func (c causes) left(e *entry) { c.add(cause{e.causeWas, e.Queue, e.Type}, deaths{count: -1}) }

func (c causes) add(k cause, n deaths) {
	d := c[k]
	d.count += n.count
	if n.first != 0 && (d.first == 0 || n.first < d.first) {
		d.first = n.first
	}
	d.last = max(d.last, n.last)
	c[k] = d
}

const (
	// addCauseSQL keeps the first death of a group while it has jobs.
	addCauseSQL = `INSERT INTO tenet_cause (cause, queue, type, count, first, last) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (cause, queue, type) DO UPDATE
SET count = count + excluded.count, first = iif(first = 0 OR excluded.first > 0 AND excluded.first < first, excluded.first, first), last = max(last, excluded.last)`
	forgetCauseSQL = `DELETE FROM tenet_cause WHERE cause = ? AND queue = ? AND type = ? AND count <= 0`
	causesSQL      = `SELECT cause, queue, type, count, first, last FROM tenet_cause`
	newestOfSQL    = `INDEXED BY tenet_job_cause WHERE state = 'dead' AND cause = ? AND queue = ? AND type = ? ORDER BY id DESC LIMIT ? + 0`
)

// write adds changes to the table.
func (c causes) write(exec func(text string, args ...any) error) error {
	for k, d := range c {
		if d == (deaths{}) {
			continue
		}
		if err := exec(addCauseSQL, k.cause, k.queue, k.jobType, d.count, d.first, d.last); err != nil {
			return err
		}
		if d.count >= 0 {
			continue
		}
		if err := exec(forgetCauseSQL, k.cause, k.queue, k.jobType); err != nil {
			return err
		}
	}
	return nil
}

// Causes implements job.Causer. It reads a row for each group, whatever the number of jobs.
func (s *Jobs) Causes(ctx context.Context, query job.CauseQuery) (job.Causes, error) {
	if err := query.Filter.Check(); err != nil {
		return job.Causes{}, fmt.Errorf("sqlite: %w", err)
	}
	if !query.Kept() {
		return query.Over(ctx, s)
	}
	var groups []job.CauseGroup
	err := s.view(ctx, "causes", func(q querier) error {
		groups = nil
		var g job.CauseGroup
		into := []any{&g.Cause, &g.Queue, &g.Type, &g.Count, (*instant)(&g.FirstSeen), (*instant)(&g.LastSeen)}
		err := each(q, selection{text: causesSQL, into: into}, func() error {
			if query.Selects(g) {
				groups = append(groups, g)
			}
			return nil
		})
		if err != nil {
			return err
		}
		groups = job.SortCauses(groups, query.Groups())
		for i := range groups {
			g := &groups[i]
			found, err := read(q, stateColumns, newestOfSQL, g.Cause, g.Queue, g.Type, job.CauseSamples)
			if err != nil {
				return err
			}
			g.Describe(lists.Map(found, func(e *entry) *job.Record { return &e.Record }))
		}
		return nil
	})
	return job.Causes{Groups: groups}, err
}
