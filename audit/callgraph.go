package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
)

// Calls are the calls of one key that ran in attempts of another key's work.
type Calls struct {
	Parent   string // key of the work in whose attempts the calls ran; "" for calls, jobs and steps outside any attempt
	Key      string
	Calls    uint64
	Attempts uint64 // that ran, hedges included
}

// CallGraph reads from a log which work ran inside the attempts of which, ordered by parent and key. Unreadable is the number of lines of
// the log that are not events. CallGraph counts as [Statistics] does, and includes calls that sampling only counted. Calls that other processes made for an attempt have no parent: the log knows what one
// process's context carried.
func CallGraph(ctx context.Context, s Source, o Spill) (list []Calls, unreadable int, err error) {
	all, read, err := count(ctx, s, o, func(e *Event) row { return row{parent: e.Parent, key: e.Key} })
	if err != nil {
		return nil, 0, fmt.Errorf("audit: call graph: %w", err)
	}
	byName := func(a, b row) int { return cmp.Or(cmp.Compare(a.parent, b.parent), cmp.Compare(a.key, b.key)) }
	list = make([]Calls, 0, len(all.rows))
	for _, name := range slices.SortedFunc(maps.Keys(all.rows), byName) {
		t := all.rows[name]
		list = append(list, Calls{Parent: name.parent, Key: name.key, Calls: t.stats.Calls, Attempts: t.tries + t.stats.Hedges})
	}
	return list, read.unreadable, nil
}
