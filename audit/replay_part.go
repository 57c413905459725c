package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// Works is a part of a log as [Replay] and [WhatIf] need it: the complete record of the pieces of work that begin there, and the
// policies that it names. Its reports add up to those of the whole log. Make it with [ReadWorks].
type Works struct {
	// After is the cursor of the last line of the part, from which the next part goes on. Ended says that the log has no more.
	After string
	Ended bool

	lines, unreadable int // of the part
	log               [][]byte
}

// Indexes is a log that finds the events of a piece of work through an index.
type Indexes interface {
	Source
	Finder
}

// ReadWorks reads the part of a log after a cursor, "" for the beginning, and of each piece of work whose first event is in it
// also the events behind it. At least one line is read, whatever the bounds.
func ReadWorks(ctx context.Context, s Indexes, after string, b Bounds) (*Works, error) {
	w, err := readWorks(ctx, s, after, b)
	if err != nil {
		return nil, fmt.Errorf("audit: read works: %w", err)
	}
	return w, nil
}

func readWorks(ctx context.Context, s Indexes, after string, b Bounds) (*Works, error) {
	if err := readable(ctx, s); err != nil {
		return nil, err
	}
	if b.Lines <= 0 {
		return nil, errors.New("the bounds have no lines")
	}
	began := time.Now()
	w := &Works{After: after}
	var found []worksLine
	lines := &part{Source: s, after: after, b: b}
	err := lines.Read(ctx, "", func(cursor string, line []byte) error {
		found = append(found, worksLine{cursor, bytes.Clone(line)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	w.Ended = !lines.cut
	r := worksReader{w, s, map[string]bool{}, map[string]bool{}}
	for i, line := range found {
		if b.Time > 0 && i > 0 && time.Since(began) >= 2*b.Time {
			w.Ended = false
			break
		}
		if err := r.add(ctx, line); err != nil {
			return nil, err
		}
	}
	return w, findSnapshots(ctx, s, r.named, func(_ Event, line []byte) { w.log = append(w.log, bytes.Clone(line)) })
}

// worksReader adds the lines of a part to its works.
type worksReader struct {
	*Works
	source Finder
	seen   map[string]bool // IDs of work
	named  map[string]bool // revisions of policies
}

// worksLine is a line of a part.
type worksLine struct {
	cursor string
	text   []byte
}

// add adds a line, and if a piece of work begins with it, the work's other lines.
func (w *worksReader) add(ctx context.Context, l worksLine) error {
	w.After = l.cursor
	w.lines++
	e, err := ParseLine(l.text)
	switch {
	case err != nil:
		w.unreadable++
		return nil //nolint:nilerr // Verify says more
	case !neededForWhatIf(&e):
		return nil
	case e.WorkID == "":
		w.named[e.PolicyRevision] = true
		w.log = append(w.log, l.text)
		return nil
	case w.seen[e.WorkID]:
		return nil
	}
	w.seen[e.WorkID] = true
	var lines [][]byte
	first := ""
	err = w.source.Find(ctx, Query{WorkID: e.WorkID}, func(cursor string, line []byte) error {
		other, err := ParseLine(line)
		if err != nil || other.WorkID != e.WorkID || !neededForWhatIf(&other) {
			return nil //nolint:nilerr // the line is counted in its part
		}
		first = cursor
		w.named[other.PolicyRevision] = true
		lines = append(lines, bytes.Clone(line))
		return nil
	})
	if err == nil && first == l.cursor {
		w.log = append(w.log, lines...)
	}
	return err
}

// Read implements Source.
func (w *Works) Read(ctx context.Context, _ string, f func(cursor string, line []byte) error) error {
	for _, line := range w.log {
		if err := errors.Join(ctx.Err(), f("", line)); err != nil {
			return err
		}
	}
	return nil
}

// Replay adds the replay of the part to the report of those before it. limit is how many divergences are listed.
func (w *Works) Replay(ctx context.Context, before *ReplayReport, limit int) (*ReplayReport, error) {
	r, err := Replay(ctx, w, ReplayOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	out := *before
	out.add(r)
	out.Lines, out.Unreadable, out.Duplicates = before.Lines+w.lines, before.Unreadable+w.unreadable, before.Duplicates+r.Duplicates
	out.Divergences = first(append(append([]Divergence{}, before.Divergences...), r.Divergences...), limit)
	return &out, nil
}

// WhatIf adds what another document would have changed in the part to the report of those before it.
func (w *Works) WhatIf(ctx context.Context, before *WhatIfReport, set *policy.Set) (*WhatIfReport, error) {
	r, err := WhatIf(ctx, w, set, ReplayOptions{})
	if err != nil {
		return nil, err
	}
	out := *before
	out.Revision = r.Revision
	out.Lines, out.Unreadable, out.Duplicates = before.Lines+w.lines, before.Unreadable+w.unreadable, before.Duplicates+r.Duplicates
	out.Total.add(&r.Total)
	out.Categories = mergeCategories(slices.Concat(before.Categories, r.Categories))
	out.addKeys(r)
	return &out, nil
}
