package job

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Periodic enqueues a job on a schedule.
type Periodic struct {
	// Name identifies the schedule; ticks are unique by name. At most 255 bytes.
	Name string
	// Cron is a standard expression of five fields, or @hourly, @daily, @every 10m and the like.
	Cron string
	// Location is the time zone of the expression, default UTC. When clocks go forward, a tick inside the gap runs at the
	// first moment after it; when they go back, a tick inside the repeated hour runs once. Expressions whose hour is * go by
	// elapsed time instead: they neither bunch up nor pause. @every takes whole seconds, at least 1s, and counts from the same
	// moment in every process.
	Location *time.Location
	// Request is the job of each tick. Its UniqueKey is set to the tick.
	Request Request
	// Missed says whether to run ticks that passed while no worker ran. Of those that passed during an outage of the store of
	// more than 12 s, while workers ran, the latest one is enqueued after it, and with MissedAll each of them.
	Missed Missed
}

// Missed is a policy for missed ticks.
type Missed string

// The policies. Ticks older than a day are always skipped.
const (
	MissedSkip Missed = ""     // forget them
	MissedOnce Missed = "once" // run the latest one
	MissedAll  Missed = "all"  // run each of them
)

// lookBack is the age up to which missed ticks are run; the unique keys of ticks are kept twice as long.
const lookBack = 24 * time.Hour

func (p *Periodic) parse() (cron.Schedule, error) {
	s, err := cron.ParseStandard(p.Cron)
	if err != nil {
		return nil, fmt.Errorf("job: periodic %q: cron %q: %w", p.Name, p.Cron, err)
	}
	if s.Next(time.Now()).IsZero() {
		return nil, fmt.Errorf("job: periodic %q: cron %q: never fires; use days that exist in the given months", p.Name, p.Cron)
	}
	switch s := s.(type) {
	case cron.ConstantDelaySchedule:
		_, every, _ := strings.Cut(p.Cron, "@every ")
		if d, err := time.ParseDuration(every); err != nil || d != s.Delay { // package cron has rounded it
			return nil, fmt.Errorf("job: periodic %q: cron %q: wait a whole number of seconds, at least 1s", p.Name, p.Cron)
		}
		return aligned(s.Delay), nil
	case *cron.SpecSchedule:
		return atTimesOfDay(s), nil
	}
	return s, nil
}

// Next is the first tick after t.
func (p *Periodic) Next(t time.Time) (time.Time, error) {
	s, err := p.parse()
	if err != nil {
		return time.Time{}, err
	}
	e := entry{periodic: p}
	return s.Next(e.in(t)), nil
}

// checkPeriodic returns an error for a schedule that cannot run.
func checkPeriodic(list []Periodic) error {
	names := map[string]bool{}
	for i := range list {
		p := &list[i]
		if p.Name == "" || names[p.Name] {
			return fmt.Errorf("job: periodic %d: name %q is empty or used twice", i, p.Name)
		}
		names[p.Name] = true
		if problem := textProblem(p.Name, maxSettingName); problem != "" {
			return fmt.Errorf("job: periodic %d: name: %s", i, problem)
		}
		if !slices.Contains([]Missed{MissedSkip, MissedOnce, MissedAll}, p.Missed) {
			return fmt.Errorf(`job: periodic %q: missed: %q is not "", once or all`, p.Name, p.Missed)
		}
		if _, err := p.parse(); err != nil {
			return err
		}
		if _, err := p.Request.insert(i, DefaultMaxPayload); err != nil {
			return fmt.Errorf("job: periodic %q: %w", p.Name, err)
		}
	}
	return nil
}

// schedule holds the next tick of each periodic job.
type schedule struct{ entries []entry }

type entry struct {
	periodic     *Periodic
	cron         cron.Schedule
	after, until time.Time // of the ticks that follow this definition; zero for no bound
	next         time.Time
}

// ended reports whether the next tick follows another definition.
func (e *entry) ended() bool { return !e.until.IsZero() && e.next.After(e.until) }

// first returns the tick to start with: the next one, or an earlier one that may have been missed.
func (e *entry) first(now time.Time) time.Time {
	later := func(t time.Time) time.Time {
		if t.Before(e.after) {
			t = e.after
		}
		return e.in(t)
	}
	if e.periodic.Missed == MissedSkip {
		return e.cron.Next(later(now))
	}
	first := e.cron.Next(later(now.Add(-lookBack)))
	if e.periodic.Missed == MissedOnce {
		return e.latest(first, now)
	}
	return first
}

// latest returns the last tick that is due, of those from a first one on.
func (e *entry) latest(tick, now time.Time) time.Time {
	for next := tick; !next.After(now) && (e.until.IsZero() || !next.After(e.until)); next = e.cron.Next(next) {
		tick = next
	}
	return tick
}

func (e *entry) in(t time.Time) time.Time {
	if e.periodic.Location == nil {
		return t.UTC()
	}
	return t.In(e.periodic.Location)
}

// run enqueues the ticks that are due and returns the time until the next one. The unique key of a tick ensures that it is
// enqueued once, even if several workers believe that they lead.
func (s *schedule) run(ctx context.Context, client *Client, timeout time.Duration) (next time.Duration, failed error) {
	s.skip(time.Now().Add(-lookBack)) // the unique keys of older ticks may be gone
	next = leadEvery
	for i := range s.entries {
		e := &s.entries[i]
		now := time.Now()
		if e.periodic.Missed != MissedAll && now.Sub(e.next) > 2*leadFor { // after an outage; another leader makes up for less than that
			e.next = e.latest(e.next, now)
		}
		for !e.next.After(now) && !e.ended() {
			r := e.periodic.Request
			r.UniqueKey = "periodic/" + e.periodic.Name + "/" + e.next.UTC().Format(time.RFC3339)
			r.UniqueFor = 2 * lookBack
			limited, cancel := context.WithTimeout(ctx, timeout) // a store that hangs is asked again
			_, err := client.Enqueue(limited, r)
			cancel()
			if err != nil {
				failed = fmt.Errorf("periodic job %q: %w", e.periodic.Name, err)
				break
			}
			e.next = e.cron.Next(e.next)
		}
		if until := time.Until(e.next); until > 0 && !e.ended() { // otherwise it has failed and waits
			next = min(next, until)
		}
	}
	return next, failed
}

// skip skips the ticks before a time.
func (s *schedule) skip(before time.Time) {
	for i := range s.entries {
		if e := &s.entries[i]; e.next.Before(before) {
			e.next = e.cron.Next(e.in(before))
		}
	}
}
