package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/observe"
	"github.com/tenetdev/tenet/policy"
)

// StatsReport summarises a log. It is identical for the same log in any order.
type StatsReport struct {
	Lines      int       `json:"lines"`
	Unreadable int       `json:"unreadable"`
	Duplicates int       `json:"duplicates"`
	From       time.Time `json:"from,omitzero"` // time of the first event that counts
	To         time.Time `json:"to,omitzero"`   // time of the last one
	Lost       uint64    `json:"lost"`          // events that writers reported as lost
	// Total covers all calls and jobs, and the process and produce steps of transactions.
	Total CategoryStats `json:"total"`
	// Categories are ordered by code and step; "" is work without a category. Each step of a pipeline has its own entry.
	Categories []CategoryStats `json:"categories"`
}

// CategoryStats are the figures of one category, or of one step of a pipeline.
type CategoryStats struct {
	Category string `json:"category"`
	Step     string `json:"step,omitempty"` // key of the step, for example consumer/orders.process; "" for calls and jobs
	// Calls counts pieces of work: calls, jobs and steps of transactions. It includes calls that sampling only counted, as
	// successes with one attempt, and calls that an idempotency guard answered with a stored result, as successes without an
	// attempt.
	Calls      uint64 `json:"calls"`
	Succeeded  uint64 `json:"succeeded"`
	Failed     uint64 `json:"failed"`
	Unfinished uint64 `json:"unfinished"` // the log lacks their end, such as that of a snoozed job
	Attempts   uint64 `json:"attempts"`   // operations that ran, hedges and the attempts before an operator's retry included
	Retries    uint64 `json:"retries"`
	Hedges     uint64 `json:"hedges"`
	// SuccessRate is the share of successes in the work that has ended; nil if none has.
	SuccessRate *float64 `json:"success_rate"`
	// AverageAttempts is attempts per call without hedges; Amplification is attempts per call including hedges. Both are nil
	// without calls.
	AverageAttempts *float64 `json:"average_attempts"`
	Amplification   *float64 `json:"amplification"`
	// Waiting is the sum of all delays before retries; MeanDelay and MaxDelay are their mean and maximum.
	Waiting   Seconds `json:"waiting_seconds"`
	MeanDelay Seconds `json:"mean_delay_seconds"`
	MaxDelay  Seconds `json:"max_delay_seconds"`
	// MaxRate is the highest number of retries in a calendar minute (UTC). MeanRate is the mean over the time from the log's
	// first event to its last, or over a minute if that is longer.
	MaxRate  uint64  `json:"max_rate_per_minute"`
	MeanRate float64 `json:"mean_rate_per_minute"`
}

// Statistics summarises a log by category. It ignores duplicates of events and uses all cores. Like that of [Replay], its
// memory does not grow with the log, except for one number per category and minute.
func Statistics(ctx context.Context, s Source, o Spill) (*StatsReport, error) {
	all, total, err := count(ctx, s, o, byCategory)
	if err != nil {
		return nil, fmt.Errorf("audit: stats: %w", err)
	}
	r := &StatsReport{
		Lines: total.lines, Unreadable: total.unreadable, Duplicates: total.duplicates,
		From: all.from, To: all.to, Lost: all.lost, Categories: []CategoryStats{},
	}
	sum := newTally()
	byName := func(a, b row) int { return cmp.Or(cmp.Compare(a.category, b.category), cmp.Compare(a.step, b.step)) }
	for _, name := range slices.SortedFunc(maps.Keys(all.rows), byName) {
		c := all.rows[name]
		c.stats.Category, c.stats.Step = name.category, name.step
		if name.totalled() {
			sum.merge(c)
		}
		r.Categories = append(r.Categories, c.finish(all.to.Sub(all.from)))
	}
	r.Total = sum.finish(all.to.Sub(all.from))
	return r, nil
}

// count counts the work of a log by the rows that name returns.
func count(ctx context.Context, s Source, o Spill, name func(*Event) row) (all *counter, read gathered, err error) {
	w, err := gather(ctx, s, o, neededForStats)
	if err != nil {
		return nil, read, err
	}
	counters, err := visitWorks(ctx, w, func() *counter { return &counter{name: name, rows: map[row]*tally{}} }, (*counter).work)
	if err != nil {
		return nil, read, err
	}
	for _, part := range counters[1:] {
		counters[0].merge(part)
	}
	return counters[0], w.total, nil
}

// neededForStats selects the events that [Statistics] reads.
func neededForStats(e *Event) bool {
	return neededForWhatIf(e) || e.Type == CallCount || e.Type == Idempotency && e.Action == hit
}

// hit is the action of a guard that returned the stored result of an earlier call.
const hit = "hit"

// counter counts one piece of work after another.
type counter struct {
	name     func(*Event) row // of an event's work
	from, to time.Time
	lost     uint64
	rows     map[row]*tally
}

// row identifies an entry of [StatsReport], or of [CallGraph].
type row struct {
	category    string
	step        string // key of a pipeline's step
	parent, key string // of a call graph
}

// byCategory is the row of an event in [StatsReport].
func byCategory(e *Event) row {
	r := row{category: e.Category}
	if e.Surface == string(policy.SurfaceStep) {
		r.step = e.Key
	}
	return r
}

// totalled reports whether the total includes the row. Of a transaction it includes only the process or produce step: the
// success of a fetch or a handler says nothing about the work.
func (r row) totalled() bool {
	return r.step == "" || strings.HasSuffix(r.step, "."+observe.StepProcess) || strings.HasSuffix(r.step, "."+observe.StepProduce)
}

// tally holds the counts of a row.
type tally struct {
	stats   CategoryStats
	tries   uint64           // attempts without hedges
	minutes map[int64]uint64 // retries by minute since 1970
}

func newTally() *tally { return &tally{minutes: map[int64]uint64{}} }

func (c *counter) work(events []Event) {
	last := &events[len(events)-1]
	if last.Type == CallCount {
		c.span(last.Time)
		c.lost += last.Lost
		if last.Count > 0 {
			c.tally(last).counted(last.Count)
		}
		return
	}
	events = decided(events)
	if len(events) == 0 {
		if last.WorkID != "" { // a stored answer of HTTP middleware is not a call
			c.span(last.Time)
			c.tally(last).replayed()
		}
		return
	}
	for len(events) > 0 {
		n := stepEnd(events)
		c.step(events[:n])
		events = events[n:]
	}
}

// step counts a call, a job, or one step of a transaction.
func (c *counter) step(events []Event) {
	last := len(events) - 1
	for last > 0 && events[last].Type == JobTransition { // another worker may have reported it, under its own policies
		last--
	}
	var runs attemptCount
	end, hedges := "", 0
	for i := range events {
		e := &events[i]
		runs.add(e)
		switch {
		case e.Type == Hedge && e.HedgeIndex > 0 && !e.Denied:
			hedges++
		case isDecision(e.Type):
			end = e.Decision
		case e.Type == JobTransition:
			end = e.ending()
		}
	}
	if events[last].Type == JobTransition && events[len(events)-1].To != "dead" {
		return // there is no decision: sampling left it out, or the job runs again
	}
	t := c.tally(&events[last])
	for i := range events {
		c.span(events[i].Time)
		if events[i].Type == RetryAttempt {
			t.retry(&events[i])
		}
	}
	s := &t.stats
	tries := runs.total()
	if e := &events[last]; e.Reason == policy.ReasonPanicInOperation { // whose attempt has no number
		tries = max(tries, e.TotalAttempts-hedges)
	}
	s.Calls++
	s.Hedges += uint64(hedges)
	t.tries += uint64(tries)
	s.Attempts += uint64(tries + hedges)
	switch end {
	case "", decision.Retry.String():
		s.Unfinished++
	case decision.Done.String():
		s.Succeeded++
	default:
		s.Failed++
	}
}

// attemptCount counts the attempts of a piece of work, without hedges. An operator's retry of a job counts them from 1 again.
type attemptCount struct {
	before, run int // the attempts of the runs that are over, and of the last run
	used        int // the attempts of the last run that will not be repeated under their numbers
}

func (a *attemptCount) total() int { return a.before + a.run }

func (a *attemptCount) add(e *Event) {
	switch judged := e.MatchedRule != ""; {
	case e.Type == JobTransition:
		a.run, a.used = max(a.run, e.TotalAttempts), e.TotalAttempts
		if e.ending() != "" {
			*a = attemptCount{before: a.total()}
		}
	case isDecision(e.Type):
		if judged && e.Surface == string(policy.SurfaceJob) && e.StateNumber <= a.used { // the log lacks the end of a run
			*a = attemptCount{before: a.total()}
		}
		a.run = max(a.run, e.StateNumber)
		if judged {
			a.used = e.StateNumber
		}
	}
}

// ending is the decision that a transition of a job amounts to, or "" if the job runs again: it was snoozed, refused, interrupted or lost.
func (e *Event) ending() string {
	switch e.To {
	case "completed":
		return decision.Done.String()
	case "dead", "cancelled": // by a lost lease, its handler or an operator
		return decision.Stop.String()
	}
	return ""
}

// decided moves the decisions, hedges and transitions to the front and returns them. Those of the job of a transaction are left out: it
// has numbers of its own.
func decided(events []Event) []Event {
	transaction := false
	for i := range events {
		transaction = transaction || events[i].Surface == string(policy.SurfaceStep)
	}
	n := 0
	for i := range events {
		if e := &events[i]; e.Type == Idempotency || transaction && e.Type == JobTransition {
			continue
		}
		if n < i {
			events[n] = events[i]
		}
		n++
	}
	return events[:n]
}

func (c *counter) tally(e *Event) *tally { return c.tallyOf(c.name(e)) }

func (c *counter) tallyOf(r row) *tally {
	t := c.rows[r]
	if t == nil {
		t = newTally()
		c.rows[r] = t
	}
	return t
}

func (c *counter) span(at time.Time) {
	if c.from.IsZero() || at.Before(c.from) {
		c.from = at
	}
	if at.After(c.to) {
		c.to = at
	}
}

// counted adds successes that sampling left out.
func (t *tally) counted(n uint64) {
	t.stats.Calls += n
	t.stats.Succeeded += n
	t.stats.Attempts += n
	t.tries += n
}

// replayed adds a call that got the stored result of an earlier one.
func (t *tally) replayed() {
	t.stats.Calls++
	t.stats.Succeeded++
}

func (t *tally) retry(e *Event) {
	t.stats.Retries++
	t.minutes[e.Time.Unix()/60]++
	delay := max(e.DelayNS.Duration(), 0)
	t.stats.Waiting.add(delay)
	t.stats.MaxDelay = max(t.stats.MaxDelay, Seconds(delay))
}

func (c *counter) merge(part *counter) {
	if !part.from.IsZero() {
		c.span(part.from)
		c.span(part.to)
	}
	c.lost += part.lost
	for r, t := range part.rows {
		c.tallyOf(r).merge(t)
	}
}

func (t *tally) merge(part *tally) {
	s, p := &t.stats, &part.stats
	s.Calls += p.Calls
	s.Succeeded += p.Succeeded
	s.Failed += p.Failed
	s.Unfinished += p.Unfinished
	s.Attempts += p.Attempts
	s.Retries += p.Retries
	s.Hedges += p.Hedges
	s.Waiting.add(time.Duration(p.Waiting))
	s.MaxDelay = max(s.MaxDelay, p.MaxDelay)
	t.tries += part.tries
	for minute, n := range part.minutes {
		t.minutes[minute] += n
	}
}

// finish computes the values derived from the counts.
func (t *tally) finish(span time.Duration) CategoryStats {
	s := t.stats
	s.SuccessRate = quotient(s.Succeeded, s.Succeeded+s.Failed)
	s.AverageAttempts = quotient(t.tries, s.Calls)
	s.Amplification = quotient(s.Attempts, s.Calls)
	if s.Retries > 0 {
		s.MeanDelay = s.Waiting / Seconds(s.Retries)
	}
	for _, n := range t.minutes {
		s.MaxRate = max(s.MaxRate, n)
	}
	s.MeanRate = float64(s.Retries) / max(span.Minutes(), 1)
	return s
}

func quotient(a, b uint64) *float64 {
	if b == 0 {
		return nil
	}
	q := float64(a) / float64(b)
	return &q
}
