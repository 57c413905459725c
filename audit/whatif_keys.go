package audit

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tenetdev/tenet/decision"
	"github.com/tenetdev/tenet/internal/lists"
)

// WhatIfKey compares the work and the decisions of one key and category.
type WhatIfKey struct {
	Key string `json:"key"`
	WhatIfCategory
	WhatIfDecisions
}

// WhatIfDecisions compares decisions. Of each piece of work they are compared up to the one after which the work would have gone
// on differently.
type WhatIfDecisions struct {
	Compared int              `json:"compared_decisions"`
	Changed  int              `json:"changed_decisions"`
	Changes  []DecisionChange `json:"changes"` // ordered by their fields
	// Unknown is CannotKnow by cause.
	Unknown map[Unknown]int `json:"unknown"`
	// Refused is how many pieces of work end with an attempt that a budget, a breaker or a limit refused. The record does not show
	// the outcome that it would have had; it is assumed to be refused again.
	Refused int `json:"refused_again"`
}

// DecisionChange is a kind of difference between recorded decisions and those of other policies.
type DecisionChange struct {
	Recorded string `json:"recorded"` // retry, done, or the reason of a stop
	Now      string `json:"now"`      // the same, or retry_sooner or retry_later
	Count    int    `json:"count"`
}

// The differences between two decisions to retry.
const (
	retrySooner = "retry_sooner"
	retryLater  = "retry_later"
)

// changeOf describes the difference between two decisions; ok is false if there is none.
func changeOf(recorded, now decision.Verdict) (c DecisionChange, ok bool) {
	c = DecisionChange{Recorded: nameOf(recorded), Now: nameOf(now)}
	if c.Recorded != c.Now {
		return c, true
	}
	if recorded.Action == decision.Retry && recorded.Delay != now.Delay {
		c.Now = retryLater
		if now.Delay < recorded.Delay {
			c.Now = retrySooner
		}
		return c, true
	}
	return c, false
}

func nameOf(v decision.Verdict) string {
	if v.Action == decision.Stop {
		return string(v.Reason)
	}
	return v.Action.String()
}

// keyTally counts the work of one target.
type keyTally struct {
	WhatIfKey
	changes map[DecisionChange]int // by their names: Count is 0
}

func newKeyTally(key, category string) *keyTally {
	t := &keyTally{changes: map[DecisionChange]int{}}
	t.Key, t.Category, t.Unknown = key, category, map[Unknown]int{}
	return t
}

func (s *simulator) tallyOf(e *Event) *keyTally {
	of := target{e.Key, e.Surface, e.Category}
	t := s.tallies[of]
	if t == nil {
		t = newKeyTally(e.Key, e.Category)
		s.tallies[of] = t
	}
	return t
}

// add counts a piece of work: its ends, and the verdicts of the other policies on its first steps.
func (t *keyTally) add(before, after workEnd, steps []step, verdicts []decision.Verdict) {
	unknown := t.CannotKnow
	t.count(before, after)
	switch {
	case t.CannotKnow > unknown:
		t.Unknown[cmp.Or(after.unknown, UnknownRecord)]++
	case !after.success && refused(after.reason):
		t.Refused++
	}
	t.Compared += len(verdicts)
	for i, now := range verdicts {
		if c, ok := changeOf(steps[i].verdict, now); ok {
			t.Changed++
			t.changes[c]++
		}
	}
}

// merge adds the counts of another keyTally.
func (t *keyTally) merge(part *keyTally) {
	t.WhatIfCategory.add(&part.WhatIfCategory)
	t.Compared += part.Compared
	t.Changed += part.Changed
	t.Refused += part.Refused
	for u, n := range part.Unknown {
		t.Unknown[u] += n
	}
	for c, n := range part.changes {
		t.changes[c] += n
	}
}

// list makes Changes from the counts.
func (t *keyTally) list() {
	t.Changes = make([]DecisionChange, 0, len(t.changes))
	for c, n := range t.changes {
		c.Count = n
		t.Changes = append(t.Changes, c)
	}
	slices.SortFunc(t.Changes, func(a, b DecisionChange) int {
		return cmp.Or(cmp.Compare(a.Recorded, b.Recorded), cmp.Compare(a.Now, b.Now))
	})
}

// sum fills the report from the tallies of all workers, with at most limit keys.
func (r *WhatIfReport) sum(tallies []*keyTally, limit int) {
	total, parts := newKeyTally("", ""), make([]WhatIfCategory, len(tallies))
	for i, t := range tallies {
		total.merge(t)
		parts[i] = t.WhatIfCategory
	}
	total.list()
	r.Total, r.Decisions, r.Categories = total.WhatIfCategory, total.WhatIfDecisions, mergeCategories(parts)
	r.Keys, r.KeysOmitted = keysOf(tallies, limit)
}

// mergeCategories adds up the figures of each category, and orders them by code.
func mergeCategories(parts []WhatIfCategory) []WhatIfCategory {
	sums := map[string]*WhatIfCategory{}
	for i := range parts {
		code := parts[i].Category
		if sums[code] == nil {
			sums[code] = &WhatIfCategory{Category: code}
		}
		sums[code].add(&parts[i])
	}
	return lists.Map(slices.Sorted(maps.Keys(sums)), func(code string) WhatIfCategory { return *sums[code] })
}

// keysOf merges the tallies of each key, and returns the first keys and the number of the others.
func keysOf(tallies []*keyTally, limit int) (list []WhatIfKey, omitted int) {
	keys := map[target]*keyTally{}
	for _, part := range tallies {
		of := target{key: part.Key, category: part.Category}
		if keys[of] == nil {
			keys[of] = newKeyTally(part.Key, part.Category)
		}
		keys[of].merge(part)
	}
	all := slices.SortedFunc(maps.Values(keys), func(a, b *keyTally) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(b.CannotKnow, a.CannotKnow), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Category, b.Category))
	})
	list = make([]WhatIfKey, 0, min(limit, len(all)))
	for _, t := range all[:cap(list)] {
		t.list()
		list = append(list, t.WhatIfKey)
	}
	return list, len(all) - len(list)
}

// addKeys adds the decisions and keys of another part of a log. A key that a part omits may be omitted again.
func (r *WhatIfReport) addKeys(part *WhatIfReport) {
	decisions := WhatIfKey{WhatIfDecisions: r.Decisions}.tally()
	decisions.merge(WhatIfKey{WhatIfDecisions: part.Decisions}.tally())
	decisions.list()
	r.Decisions = decisions.WhatIfDecisions
	keys, omitted := keysOf(lists.Map(slices.Concat(r.Keys, part.Keys), WhatIfKey.tally), defaultLimit)
	r.Keys, r.KeysOmitted = keys, r.KeysOmitted+part.KeysOmitted+omitted
}

// tally returns the counts, to be added to.
func (k WhatIfKey) tally() *keyTally {
	t := newKeyTally(k.Key, k.Category)
	t.WhatIfCategory, t.Compared, t.Changed, t.Refused = k.WhatIfCategory, k.Compared, k.Changed, k.Refused
	maps.Copy(t.Unknown, k.Unknown)
	for _, c := range k.Changes {
		n := c.Count
		c.Count = 0
		t.changes[c] = n
	}
	return t
}
