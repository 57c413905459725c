package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenetdev/tenet/job"
)

// totals are changes of the numbers of jobs by queue and state.
type totals map[string]job.QueueStats

// add counts n more jobs of a queue in a state.
func (t totals) add(queue string, state job.State, n int) {
	q := t[queue]
	*q.Of(state) += n
	t[queue] = q
}

// move counts jobs of a queue that went from one state to another.
func (t totals) move(queue string, from, to job.State, n int) {
	t.add(queue, from, -n)
	t.add(queue, to, n)
}

// moved counts a job that a transition has moved, with the rows that it added to the history.
func (t totals) moved(queue string, from, to job.State, rows []job.Attempt) {
	t.move(queue, from, to, 1)
	q := t[queue]
	q.Activity.Moved(from == job.Running, to, rows)
	t[queue] = q
}

// enqueued counts a new job.
func (t totals) enqueued(queue string, state job.State) {
	q := t[queue]
	*q.Of(state)++
	q.Activity.Enqueued++
	t[queue] = q
}

// completed counts a running job that has completed.
func (t totals) completed(queue string) {
	q := t[queue]
	q.Running, q.Completed = q.Running-1, q.Completed+1
	q.Activity.Completed, q.Activity.Attempts = q.Activity.Completed+1, q.Activity.Attempts+1
	t[queue] = q
}

// merge adds changes to others.
func (t totals) merge(more totals) {
	for queue, m := range more {
		q := t[queue]
		q.Add(m)
		t[queue] = q
	}
}

const (
	addTotalSQL = `INSERT INTO tenet_total (queue, waiting, scheduled, ready, running, completed, dead, cancelled,
enqueued, all_completed, all_dead, all_cancelled, attempts, retries) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (queue) DO UPDATE SET waiting = waiting + excluded.waiting, scheduled = scheduled + excluded.scheduled, ready = ready + excluded.ready, running = running + excluded.running,
completed = completed + excluded.completed, dead = dead + excluded.dead, cancelled = cancelled + excluded.cancelled,
enqueued = enqueued + excluded.enqueued, all_completed = all_completed + excluded.all_completed, all_dead = all_dead + excluded.all_dead,
all_cancelled = all_cancelled + excluded.all_cancelled, attempts = attempts + excluded.attempts, retries = retries + excluded.retries`
	forgetSQL = `DELETE FROM tenet_total WHERE waiting = 0 AND scheduled = 0 AND ready = 0 AND running = 0 AND completed = 0 AND dead = 0 AND cancelled = 0`
	totalsSQL = `SELECT queue, waiting, scheduled, ready, running, completed, dead, cancelled, enqueued, all_completed, all_dead, all_cancelled, attempts, retries
FROM tenet_total
WHERE waiting + scheduled + ready + running + completed + dead + cancelled > 0`
	// oldestSQL hops through the index of claims, from the first job of each queue, type and priority to the next. One comparison
	// of all three columns would read every job of the queue: SQLite begins at the columns' values and skips what is equal.
	oldestSQL = `WITH RECURSIVE head (queue, type, priority) AS (
SELECT queue, type, priority FROM tenet_job WHERE seq =
(SELECT seq FROM tenet_job INDEXED BY tenet_job_ready WHERE state = 'ready' AND queue >= '' ORDER BY queue, type, priority LIMIT 1)
UNION ALL SELECT j.queue, j.type, j.priority FROM head CROSS JOIN tenet_job AS j ON j.seq = coalesce(
(SELECT n.seq FROM tenet_job AS n INDEXED BY tenet_job_ready WHERE n.state = 'ready' AND n.queue = head.queue AND n.type = head.type
AND n.priority > head.priority ORDER BY n.priority LIMIT 1),
(SELECT n.seq FROM tenet_job AS n INDEXED BY tenet_job_ready WHERE n.state = 'ready' AND n.queue = head.queue AND n.type > head.type
ORDER BY n.type, n.priority LIMIT 1),
(SELECT n.seq FROM tenet_job AS n INDEXED BY tenet_job_ready WHERE n.state = 'ready' AND n.queue > head.queue ORDER BY n.queue, n.type, n.priority LIMIT 1)))
SELECT queue, (SELECT n.run_at FROM tenet_job AS n INDEXED BY tenet_job_ready WHERE n.state = 'ready' AND n.queue = head.queue
AND n.type = head.type AND n.priority = head.priority ORDER BY n.run_at LIMIT 1) FROM head`
)

// write adds changes to the table.
func (t totals) write(exec func(text string, args ...any) error) error {
	for queue, q := range t {
		if q == (job.QueueStats{}) {
			continue
		}
		a := &q.Activity
		err := exec(addTotalSQL, queue, q.Waiting, q.Scheduled, q.Ready, q.Running, q.Completed, q.Dead, q.Cancelled,
			a.Enqueued, a.Completed, a.Dead, a.Cancelled, a.Attempts, a.Retries)
		if err != nil {
			return err
		}
	}
	return nil
}

// Stats implements job.Admin. It reads the kept counts, a row for each queue, whatever the number of jobs.
func (s *Jobs) Stats(ctx context.Context) (map[string]job.QueueStats, error) {
	stats := map[string]job.QueueStats{}
	err := s.view(ctx, "stats", func(q querier) error {
		var queue string
		var c job.QueueStats
		a := &c.Activity
		targets := []any{
			&queue, &c.Waiting, &c.Scheduled, &c.Ready, &c.Running, &c.Completed, &c.Dead, &c.Cancelled,
			&a.Enqueued, &a.Completed, &a.Dead, &a.Cancelled, &a.Attempts, &a.Retries,
		}
		err := each(q, selection{text: totalsSQL, into: targets}, func() error { stats[queue] = c; return nil })
		if err != nil {
			return err
		}
		at, oldest := now(), time.Time{}
		return each(q, selection{text: oldestSQL, into: []any{&queue, (*instant)(&oldest)}}, func() error {
			c := stats[queue]
			c.OldestReady = max(c.OldestReady, at.Sub(oldest))
			stats[queue] = c
			return nil
		})
	})
	return stats, err
}

// lastSQL reads the newest of a state from the end of the index.
const lastSQL = `SELECT queue, state, run_at, finished_at FROM tenet_job INDEXED BY tenet_job_finished
WHERE state = '%s' AND state IN ('completed', 'dead', 'cancelled') AND finished_at > ? ORDER BY finished_at DESC LIMIT ? + 0`

// Finished implements job.Finisher. It reads the ends of an index.
func (s *Jobs) Finished(ctx context.Context, after time.Time, limit int) ([]job.Finish, error) {
	var list []job.Finish
	err := s.view(ctx, "finished", func(q querier) error {
		var f job.Finish
		into := []any{&f.Queue, &f.State, (*instant)(&f.Due), (*instant)(&f.Finished)}
		for _, state := range []job.State{job.Completed, job.Dead} {
			ended, err := all(q, selection{text: fmt.Sprintf(lastSQL, state), args: []any{micros(after), limit}, into: into}, &f)
			if err != nil {
				return err
			}
			list = append(list, ended...)
		}
		return nil
	})
	slices.SortStableFunc(list, func(a, b job.Finish) int { return b.Finished.Compare(a.Finished) })
	return list[:min(len(list), max(limit, 0))], err
}
