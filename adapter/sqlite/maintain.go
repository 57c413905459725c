package sqlite

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tenetdev/tenet/job"
)

const (
	expiredSQL     = `INDEXED BY tenet_job_running WHERE state = 'running' AND lease_until <= ? ORDER BY lease_until LIMIT ? + 0`
	finishedSQL    = `INDEXED BY tenet_job_finished WHERE state = '%s' AND state IN ('completed', 'dead', 'cancelled') AND finished_at <= ? AND needed = 0 ORDER BY finished_at LIMIT ? + 0`
	nextDueSQL     = `SELECT run_at FROM tenet_job INDEXED BY tenet_job_scheduled WHERE state = 'scheduled' AND run_at > ? ORDER BY run_at LIMIT 1`
	dropHistorySQL = `DELETE FROM tenet_attempt WHERE job IN (SELECT value FROM json_each(?))`
	dropSQL        = `DELETE FROM tenet_job WHERE seq IN (SELECT value FROM json_each(?))`
	leadSQL        = `INSERT INTO tenet_leader (role, worker, until) VALUES ('jobs', ?1, ?2) ON CONFLICT (role) DO UPDATE
SET worker = excluded.worker, until = excluded.until WHERE worker = excluded.worker OR until <= ?3 RETURNING 1`
)

// reclaimColumns are the columns that Lose and the report of lost leases need.
var reclaimColumns = append(stateColumns[:len(stateColumns):len(stateColumns)], "meta")

// Maintain implements job.Store.
func (s *Jobs) Maintain(ctx context.Context, m job.Maintenance) (job.Maintained, error) {
	return written(ctx, s, "maintain", func(q querier) (job.Maintained, error) { return maintain(q, m, now()) })
}

func maintain(q querier, m job.Maintenance, at time.Time) (done job.Maintained, err error) {
	done.Now = at
	if done.Promoted, err = promote(q, m.Limit, at); err != nil {
		return done, err
	}
	expired, err := read(q, reclaimColumns, expiredSQL, at.UnixMicro(), m.Limit)
	if err != nil {
		return done, err
	}
	for _, e := range expired {
		e.rows, e.changed = e.Lose(at), true
		done.Lost = append(done.Lost, job.Lost{
			Ref: e.Ref(), Type: e.Type, Queue: e.Queue, Meta: e.Meta, Worker: e.Worker, State: e.State, Attempts: e.Failures,
		})
	}
	if err := save(q, expired); err != nil {
		return done, err
	}
	done.Reclaimed = len(expired)
	for state, keep := range m.Keep {
		if !state.Finished() || done.Removed >= m.Limit {
			continue
		}
		old, err := read(q, stateColumns, fmt.Sprintf(finishedSQL, state), at.Add(-keep).UnixMicro(), m.Limit-done.Removed)
		if err != nil {
			return done, err
		}
		if len(old) < m.Limit-done.Removed {
			ofFlows, err := read(q, stateColumns, finishedFlowsSQL, string(state), at.Add(-keep).UnixMicro(), m.Limit-done.Removed-len(old))
			if err != nil {
				return done, err
			}
			old = append(old, ofFlows...)
		}
		if err := drop(q, old); err != nil {
			return done, err
		}
		done.Removed += len(old)
	}
	if done.Removed > 0 {
		if err := q.exec(forgetSQL); err != nil {
			return done, err
		}
	}
	if err := q.exec(expireSQL, at.UnixMicro(), m.Limit); err != nil {
		return done, err
	}
	if done.More, err = gateStep(q); err != nil {
		return done, err
	}
	if err := tend(q, at); err != nil {
		return done, err
	}
	if done.NextDue, err = nextPlace(q); err != nil {
		return done, err
	}
	var due time.Time
	err = each(q, selection{text: nextDueSQL, args: []any{int64(math.MinInt64)}, into: []any{(*instant)(&due)}}, func() error {
		if done.NextDue.IsZero() || due.Before(done.NextDue) {
			done.NextDue = due
		}
		return nil
	})
	return done, err
}

// drop removes jobs with their history. Windows of their unique keys stay.
func drop(q querier, gone []*entry) error {
	if len(gone) == 0 {
		return nil
	}
	if err := releaseKeys(q, gone); err != nil {
		return err
	}
	counts, left := totals{}, causes{}
	var moves []move
	var inFlows []*entry
	for _, e := range gone {
		if e.needed != job.NotInFlow {
			e.State = "" // outside the store
			inFlows = append(inFlows, e)
		}
		moves = append(moves, move{id: e.ID, from: e.was, to: removed})
		counts.add(e.Queue, e.was, -1)
		if e.was == job.Dead {
			left.left(e)
		}
	}
	if err := q.count(counts, left); err != nil {
		return err
	}
	if err := pass(q, moves, time.Time{}); err != nil {
		return err
	}
	seqs := list(gone, seqOf)
	if err := q.exec(dropHistorySQL, seqs); err != nil {
		return err
	}
	if err := q.exec(dropSQL, seqs); err != nil {
		return err
	}
	if len(inFlows) == 0 {
		return nil
	}
	if err := flowsMoved(q, inFlows); err != nil { // after the rows are gone, so that it frees and cancels none of these jobs
		return err
	}
	return q.exec(dropNodesSQL, seqs)
}

// Lead implements job.Elector. It returns a *job.DurationError for a ttl outside the limits of leases.
func (s *Jobs) Lead(ctx context.Context, worker string, ttl time.Duration) (bool, error) {
	if err := job.CheckLease(ttl); err != nil {
		return false, err
	}
	leads := false
	err := s.write(ctx, "lead", func(q querier) error {
		leads = false
		at, one := now(), 0
		return each(q, selection{text: leadSQL, args: []any{worker, at.Add(ttl).UnixMicro(), at.UnixMicro()}, into: []any{&one}}, func() error { leads = true; return nil })
	})
	return leads && err == nil, err
}
