package job

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenetdev/tenet/filter"
)

// Searcher is implemented by stores that search from the newest job to the oldest, within a bounded time.
type Searcher interface {
	// Search returns the newest jobs that a filter selects. Where an index leads to them, it reads no others; otherwise it
	// looks at one job after the other and stops when the time is over.
	Search(ctx context.Context, q Search) (Found, error)
	// Indexes lists the indexed fields as filters name them, such as payload.order.id.
	Indexes(ctx context.Context) ([]string, error)
}

// Indexer is implemented by stores in which an operator can have fields of metadata and payloads indexed. Each index costs
// every insert a little.
type Indexer interface {
	// SetIndex makes an index on a field, or removes it. It does nothing if the index exists, or is gone, already. While it makes an
	// index of many jobs, which takes seconds for each million, SQLite writes nothing else; PostgreSQL still takes writes.
	SetIndex(ctx context.Context, field string, kept bool) error
}

// Search asks for the newest jobs that match a filter.
type Search struct {
	Filter Filter
	Below  string        // only jobs with lower IDs: Found.Next of the search that this one continues; "" for all
	Limit  int           // jobs; default 100
	Within time.Duration // time after which the search stops, once it has looked at some jobs; default 2 s
}

// Found is what a search has found.
type Found struct {
	Jobs []*Record // newest first
	// Next is the Below of the search that continues this one. This one has looked at all jobs with this ID or a higher one. Next
	// is empty if there are no more jobs.
	Next string
	// Unindexed lists the fields of metadata and payloads in the filter that have no index, as filters name them.
	Unindexed []string
}

// IndexedField returns the field of a name such as meta.tenant or payload.order.id as a term without values. Errors are of
// type *filter.Error.
func IndexedField(name string) (filter.Term, error) {
	t := filter.Term{Pos: 1, Values: filter.Exactly("value")}
	terms, err := filter.Parse(name+":value", FilterFields())
	if err != nil {
		return t, err
	}
	if len(terms) != 1 || terms[0].Path == "" || len(terms[0].Values) != 1 || terms[0].Name() != name {
		return t, &filter.Error{Pos: 1, Problem: fmt.Sprintf("%q: write meta.NAME or payload.NAME.NAME", name)}
	}
	t = terms[0]
	if problem := checkTerm(t); problem != "" {
		return t, &filter.Error{Pos: 1, Problem: problem}
	}
	t.Values = nil
	return t, nil
}

// Candidates is how a store goes through its jobs for [Search.Over].
type Candidates struct {
	Indexes []string // the indexed fields
	// Newest returns the highest n IDs below an ID, in descending order: those that an index has for a term, or all where
	// that is nil. An empty ID is above all. It may leave out jobs that the filter does not select.
	Newest func(ctx context.Context, indexed *filter.Term, below string, n int) ([]string, error)
	// List is the store's method.
	List func(ctx context.Context, f Filter, after string, limit int) ([]*Record, error)
}

// The number of jobs that a search looks at in one step starts small, and doubles while a step is short for its time.
const (
	firstStep = 256
	largeStep = 8192
)

// Over searches a store. Stores call it.
func (q Search) Over(ctx context.Context, c Candidates) (found Found, err error) {
	if err := q.Filter.Check(); err != nil {
		return found, err
	}
	limit, within := cmp.Or(max(q.Limit, 0), 100), cmp.Or(max(q.Within, 0), 2*time.Second)
	var indexed *filter.Term
	for i, t := range q.Filter.Terms {
		switch {
		case t.Path == "":
		case !slices.Contains(c.Indexes, t.Name()):
			found.Unindexed = append(found.Unindexed, t.Name())
		case indexed == nil:
			indexed = &q.Filter.Terms[i]
		}
	}
	newest := func(below string, n int) ([]string, error) { return c.Newest(ctx, indexed, below, n) }
	if len(q.Filter.IDs) > 0 {
		newest = named(q.Filter.IDs)
	}
	start := time.Now()
	f, below, n := q.Filter, q.Below, firstStep
	for {
		began := time.Now()
		if f.IDs, err = newest(below, n); err != nil || len(f.IDs) == 0 {
			return found, err
		}
		page, err := c.List(ctx, f, "", n)
		if err != nil {
			return found, err
		}
		slices.Reverse(page)
		found.Jobs = append(found.Jobs, page...)
		below = f.IDs[len(f.IDs)-1]
		switch last := len(f.IDs) < n; {
		case len(found.Jobs) > limit || len(found.Jobs) == limit && !last:
			found.Jobs = found.Jobs[:limit]
			found.Next = found.Jobs[limit-1].ID
			return found, nil
		case last:
			return found, nil
		case time.Since(start) >= within:
			found.Next = below
			return found, nil
		}
		if took := time.Since(began); took < within/16 {
			n = min(2*n, largeStep)
		} else if took > within/8 {
			n = max(n/2, 1)
		}
	}
}

// named goes through IDs that the filter names.
func named(ids []string) func(below string, n int) ([]string, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	return func(below string, n int) ([]string, error) {
		rest := len(ids)
		if below != "" {
			rest, _ = slices.BinarySearch(ids, below)
		}
		page := slices.Clone(ids[max(rest-n, 0):rest])
		slices.Reverse(page)
		return page, nil
	}
}
