package postgres

import (
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenetdev/tenet/job"
)

// Deleted rows stay in an index until a vacuum, and for as long as any transaction on the server is older. A claim from the
// head of a queue reads past all of them: at 10,000 jobs per second and a vacuum each minute, 600,000 entries. Busy stores
// therefore remember the position that they have reached and start there. Jobs committed behind that position, such as
// retries that became due, are found by regular claims from the head.
const (
	// busyAfter is the number of claimed jobs after which a position is worthwhile. Until then every claim starts at the head.
	busyAfter = 5000
	// headEvery is how late a busy queue notices jobs behind its position. If reading from the head is slow, it may use a
	// twentieth of the time, up to headAtLeast.
	headEvery   = 100 * time.Millisecond
	headShare   = 20
	headAtLeast = 5 * time.Second
	// perJob is the largest cost of moving a job, without the cost of finding it.
	perJob = 50 * time.Microsecond
	// quickHead is the duration of a claim from the head that is cheap enough to be made whenever a queue seems to be empty.
	quickHead = 50 * time.Millisecond
)

// position is a place in the order of a queue's jobs of one priority.
type position struct {
	runAt time.Time
	id    pgtype.UUID
}

// cursor is the position of claims in a queue.
type cursor struct {
	claimed int
	reached [job.MaxPriority + 1]position // every job of the priority that was seen before it is claimed
	drained bool                          // the last claim got less than it asked for
	head    time.Time                     // when the next claim has to start at the head
	quick   bool                          // the last claim from the head was
}

// cursors holds the cursors by queue and requested types.
type cursors struct {
	mu sync.Mutex
	by map[string]*cursor
}

// start returns the positions from which to claim, or ok = false for a claim from the head.
func (c *cursors) start(name string, now time.Time) (from [job.MaxPriority + 1]position, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.by[name]
	if at == nil || at.claimed < busyAfter || !now.Before(at.head) || at.drained && at.quick {
		return from, false
	}
	return at.reached, true
}

// claimResult is the result of a claim from one queue.
type claimResult struct {
	jobs  []*job.Record // in the order of the queue
	asked int           // the most jobs that the claim could return
	took  time.Duration // how long the claim took if it started at the head, otherwise 0
	at    time.Time
}

// advance moves the cursor past the claimed jobs.
func (c *cursors) advance(name string, b claimResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]*cursor{}
	}
	at := c.by[name]
	if at == nil {
		at = &cursor{}
		c.by[name] = at
	}
	at.claimed = min(at.claimed+len(b.jobs), busyAfter)
	at.drained = len(b.jobs) < b.asked
	for i, r := range b.jobs {
		last := i == len(b.jobs)-1 || b.jobs[i+1].Priority != r.Priority
		if last && r.Priority >= 0 && r.Priority < len(at.reached) {
			id, _ := parseID(r.ID)
			at.reached[r.Priority] = position{r.RunAt, id}
		}
	}
	if b.took > 0 {
		took := b.took - time.Duration(len(b.jobs))*perJob
		at.head = b.at.Add(max(headEvery, min(headShare*took, headAtLeast)))
		at.quick = took < quickHead
	}
}

// mayHaveMore reports whether a claim that started at the positions and was not filled should be followed by one from the
// head.
func (c *cursors) mayHaveMore(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.by[name]
	return at != nil && at.quick
}

// positionColumns returns the positions to claim a number of types from, as columns, and their number. One type is read
// priority by priority. Several types are merged in ranges, at most one more than priorities were seen.
func positionColumns(from [job.MaxPriority + 1]position, types int) (positions int, columns []any) {
	var priorities, ends []int16
	var runAts []pgtype.Timestamptz
	var ids []pgtype.UUID
	for p, at := range from {
		if at.runAt.IsZero() && types > 1 && p > 0 {
			continue // the range before continues
		}
		runAt := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
		if !at.runAt.IsZero() {
			runAt = stamp(at.runAt)
		}
		at.id.Valid = true
		priorities, runAts, ids = append(priorities, int16(p)), append(runAts, runAt), append(ids, at.id)
	}
	if types == 1 {
		return len(priorities), []any{priorities, runAts, ids}
	}
	ends = append(append(ends, priorities[1:]...), int16(len(from)))
	return len(priorities), []any{priorities, runAts, ids, ends}
}

// sweep is the position of maintenance in an index by time. Maintenance starts there, less a margin for late commits, and now
// and then at the beginning, for even later ones.
type sweep struct {
	mu    sync.Mutex
	upTo  time.Time // by the server's clock: everything before is done
	whole time.Time // when the next sweep starts at the beginning
}

const (
	sweepMargin = 10 * time.Second
	sweepWhole  = 10 * time.Second
)

// from returns where the next sweep starts.
func (s *sweep) from(now time.Time) pgtype.Timestamptz {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.upTo.IsZero() || !now.Before(s.whole) {
		s.whole = now.Add(sweepWhole)
		return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	}
	return stamp(s.upTo.Add(-sweepMargin))
}

// restart makes the next sweep start at the beginning.
func (s *sweep) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = time.Time{}
}

// done notes that nothing is left before upTo.
func (s *sweep) done(upTo time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upTo = upTo
}
