package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// WhatIfReport says what would have been different under other policies. It is the same, byte by byte, for the same log in
// any order.
type WhatIfReport struct {
	Lines      int              `json:"lines"`
	Unreadable int              `json:"unreadable"`
	Duplicates int              `json:"duplicates"`
	Revision   string           `json:"revision"` // of the document that was asked
	Total      WhatIfCategory   `json:"total"`
	Categories []WhatIfCategory `json:"categories"` // ordered by code
}

// WhatIfCategory compares the work of one category: calls, jobs, and each step of transactions. Every one is one of: same,
// succeeded earlier or later, failed earlier or later, cannot know.
type WhatIfCategory struct {
	Category string `json:"category"` // code; "" for work without one
	Works    int    `json:"works"`
	Same     int    `json:"same"`
	// SucceededEarlier and SucceededLater: with success, as recorded, after less or more waiting.
	SucceededEarlier int `json:"succeeded_earlier"`
	SucceededLater   int `json:"succeeded_later"`
	// FailedEarlier and FailedLater: without success, before or after its recorded end.
	FailedEarlier int `json:"failed_earlier"`
	FailedLater   int `json:"failed_later"`
	// LostSuccesses is how many of those that fail have succeeded on record.
	LostSuccesses int `json:"lost_successes"`
	// CannotKnow: the recording does not hold what would have happened, for example further attempts.
	CannotKnow int `json:"cannot_know"`
	// Before and After add up the work whose end is known.
	Before Effort `json:"before"`
	After  Effort `json:"after"`
}

// Effort is what work took.
type Effort struct {
	Attempts int     `json:"attempts"` // groups of attempts where hedged
	Waiting  Seconds `json:"waiting_seconds"`
}

// Seconds is a duration that JSON writes as a number of seconds.
type Seconds time.Duration

// MarshalJSON writes the number.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return appendNumber(nil, time.Duration(s).Seconds()), nil
}

// WhatIf walks through the recorded attempts of every piece of work under the policies that set gives to its key, and says
// how it would have ended. Outcomes, denials, interruptions and the time that attempts took are those on record, hedges
// too. What the recording cannot tell is counted as such: attempts beyond those recorded, attempts that another timeout
// would have cut off or let run on, work whose beginning or end is missing, and steps of a transaction after one that would
// have ended otherwise. Waiting beyond 292 years in all is 292 years. A nil set is an error.
func WhatIf(ctx context.Context, s Source, set *policy.Set, o ReplayOptions) (_ *WhatIfReport, err error) {
	if set == nil {
		return nil, errors.New("audit: what if: the set of policies is nil")
	}
	w, err := gather(ctx, s, o.Spill, ofDecisions)
	if err != nil {
		return nil, fmt.Errorf("audit: what if: %w", err)
	}
	defer func() { err = errors.Join(err, w.close()) }()
	recorded := w.snapshots()
	workers := make([]speculator, runtime.GOMAXPROCS(0))
	for i := range workers {
		workers[i] = speculator{set: set, recorded: recorded, resolved: map[target]*policy.Policy{}, categories: map[string]*WhatIfCategory{}}
	}
	if err := w.each(ctx, func(worker int, events []Event) { workers[worker].work(events) }); err != nil {
		return nil, fmt.Errorf("audit: what if: %w", err)
	}
	sums := map[string]*WhatIfCategory{}
	r := &WhatIfReport{
		Lines: w.total.lines, Unreadable: w.total.unreadable, Duplicates: w.total.duplicates, Revision: set.Revision(),
		Categories: []WhatIfCategory{},
	}
	for i := range workers {
		for code, c := range workers[i].categories {
			if sums[code] == nil {
				sums[code] = &WhatIfCategory{Category: code}
			}
			sums[code].add(c)
			r.Total.add(c)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(sums)) {
		r.Categories = append(r.Categories, *sums[code])
	}
	return r, nil
}

func (c *WhatIfCategory) add(part *WhatIfCategory) {
	c.Works += part.Works
	c.Same += part.Same
	c.SucceededEarlier += part.SucceededEarlier
	c.SucceededLater += part.SucceededLater
	c.FailedEarlier += part.FailedEarlier
	c.FailedLater += part.FailedLater
	c.LostSuccesses += part.LostSuccesses
	c.CannotKnow += part.CannotKnow
	c.Before.add(part.Before)
	c.After.add(part.After)
}

func (e *Effort) add(part Effort) {
	e.Attempts += part.Attempts
	e.Waiting = Seconds(saturating(time.Duration(e.Waiting), time.Duration(part.Waiting)))
}

// saturating adds durations that are not negative; sums are the same in any order.
func saturating(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// ended is how a piece of work ended, on record or under another policy.
type ended struct {
	known   bool
	success bool
	effort  Effort
	at      time.Duration // since the work began
}

// count files a piece of work.
func (c *WhatIfCategory) count(before, after ended) {
	c.Works++
	switch {
	case !after.known:
		c.CannotKnow++
		return
	case after.success && !before.known: // the recording stops before its end
		c.CannotKnow++
		return
	case !after.success && before.success:
		c.FailedEarlier++
		c.LostSuccesses++
	case !before.known:
		c.FailedEarlier++
	case after.at == before.at && after.effort == before.effort:
		c.Same++
	case after.success && after.at <= before.at:
		c.SucceededEarlier++
	case after.success:
		c.SucceededLater++
	case after.at <= before.at:
		c.FailedEarlier++
	default:
		c.FailedLater++
	}
	c.Before.add(before.effort)
	c.After.add(after.effort)
}
