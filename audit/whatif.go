package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/policy"
)

// WhatIfReport says what would have been different under other policies. It is identical for the same log in any order.
type WhatIfReport struct {
	Lines      int              `json:"lines"`
	Unreadable int              `json:"unreadable"`
	Duplicates int              `json:"duplicates"`
	Revision   string           `json:"revision"` // of the other policies' document
	Total      WhatIfCategory   `json:"total"`
	Categories []WhatIfCategory `json:"categories"` // ordered by code
	Decisions  WhatIfDecisions  `json:"decisions"`  // of all work
	// Keys are ordered by the number of decisions that change, the highest first: at most ReplayOptions.Limit of them. The totals
	// include the rest. KeysOmitted is the number of the rest; a report in parts may count a key several times.
	Keys        []WhatIfKey `json:"keys"`
	KeysOmitted int         `json:"keys_omitted"`
}

// WhatIfCategory compares the work of one category: calls, jobs, and each step of transactions. Each counts as one of: same,
// succeeded earlier, succeeded later, failed earlier, failed later, cannot know.
type WhatIfCategory struct {
	Category string `json:"category"` // code; "" for work without one
	Works    int    `json:"works"`
	Same     int    `json:"same"`
	// SucceededEarlier and SucceededLater succeeded, as recorded, but before or after the recorded end.
	SucceededEarlier int `json:"succeeded_earlier"`
	SucceededLater   int `json:"succeeded_later"`
	// FailedEarlier and FailedLater failed, before or after the recorded end.
	FailedEarlier int `json:"failed_earlier"`
	FailedLater   int `json:"failed_later"`
	// LostSuccesses is how many of the failed ones succeeded according to the log.
	LostSuccesses int `json:"lost_successes"`
	// CannotKnow counts work for which the log lacks what would have happened, for example further attempts.
	CannotKnow int `json:"cannot_know"`
	// Before and After are the sums over the work whose end is known, as recorded and under the other policies.
	Before Effort `json:"before"`
	After  Effort `json:"after"`
}

// Effort is the number of attempts and the time that work spent waiting between them.
type Effort struct {
	Attempts int     `json:"attempts"` // a hedged group counts as one
	Waiting  Seconds `json:"waiting_seconds"`
}

// Seconds is a duration whose JSON form is a number of seconds.
type Seconds time.Duration

// add adds a delay, which must not be negative. The sum saturates, so its result does not depend on the order.
func (s *Seconds) add(delay time.Duration) { *s = Seconds(decision.Sum(time.Duration(*s), delay)) }

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return appendNumber(nil, time.Duration(s).Seconds()), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(text []byte) error {
	var number float64
	if err := json.Unmarshal(text, &number); err != nil {
		return err
	}
	*s = Seconds(math.Round(min(number*float64(time.Second), math.MaxInt64-1024)))
	return nil
}

// WhatIf walks through the recorded attempts of every piece of work under the policies that set holds for its key, and reports
// how it would have ended. It takes outcomes, denials, interruptions, hedges and the duration of attempts from the log. It
// counts as CannotKnow what the log cannot show: attempts beyond the recorded ones, attempts that another timeout would have
// cut off or let run longer, work whose start or end is missing, and steps of a transaction after one that would have ended
// differently. The total waiting time is at most 292 years. A nil set is an error.
func WhatIf(ctx context.Context, s Source, set *policy.Set, o ReplayOptions) (*WhatIfReport, error) {
	if set == nil {
		return nil, errors.New("audit: what if: the set of policies is nil")
	}
	o.Limit = cmp.Or(max(o.Limit, 0), defaultLimit)
	w, err := gather(ctx, s, o.Spill, neededForWhatIf)
	if err != nil {
		return nil, fmt.Errorf("audit: what if: %w", err)
	}
	recorded := w.snapshots()
	simulators, err := visitWorks(ctx, w, func() *simulator {
		return &simulator{set: set, recorded: recorded, resolved: map[target]*policy.Policy{}, tallies: map[target]*keyTally{}}
	}, (*simulator).work)
	if err != nil {
		return nil, fmt.Errorf("audit: what if: %w", err)
	}
	r := &WhatIfReport{
		Lines: w.total.lines, Unreadable: w.total.unreadable, Duplicates: w.total.duplicates, Revision: set.Revision(),
	}
	var tallies []*keyTally
	for _, s := range simulators {
		tallies = slices.AppendSeq(tallies, maps.Values(s.tallies))
	}
	r.sum(tallies, o.Limit)
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
	e.Waiting.add(time.Duration(part.Waiting))
}

// Unknown says why the record cannot show how work would have ended.
type Unknown string

// The reasons why an end is unknown.
const (
	UnknownAttempts     Unknown = "more_attempts"    // the policy allows an attempt after the last one that ran
	UnknownTimeout      Unknown = "other_timeout"    // a timeout would have cut an attempt off, or let it run longer
	UnknownInterruption Unknown = "shorter_wait"     // another attempt would have begun before the work was interrupted
	UnknownRecord       Unknown = "incomplete"       // the log lacks the start, the end or a part of the work, or the work still runs
	UnknownAfterStep    Unknown = "after_other_step" // an earlier step of the transaction would have ended differently
)

var unknownPhrases = map[Unknown]string{
	UnknownAttempts:     "it allows attempts after the last one that ran",
	UnknownTimeout:      "its timeout would have cut off an attempt, or let it run longer",
	UnknownInterruption: "another attempt would have begun before the work was interrupted",
	UnknownRecord:       "the record is incomplete, or the work still runs",
	UnknownAfterStep:    "an earlier step of the transaction would have ended differently",
}

// String returns a phrase for people.
func (u Unknown) String() string { return cmp.Or(unknownPhrases[u], string(u)) }

// workEnd is how a piece of work ended, as recorded or under another policy.
type workEnd struct {
	unknown Unknown       // "" if the end is known
	reason  policy.Reason // of the last decision
	success bool
	effort  Effort
	at      time.Duration // since the work began
}

// count adds a piece of work.
func (c *WhatIfCategory) count(before, after workEnd) {
	c.Works++
	switch {
	case after.unknown != "":
		c.CannotKnow++
		return
	case after.success && before.unknown != "": // the log lacks its end
		c.CannotKnow++
		return
	case !after.success && before.success:
		c.FailedEarlier++
		c.LostSuccesses++
	case before.unknown != "":
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
