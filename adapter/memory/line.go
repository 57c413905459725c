package memory

import "github.com/tenetdev/tenet/job"

// lines are of different types.
type lines []*line

// first is the entry of any of them to be claimed next, or nil.
func (l lines) first() (best *entry) {
	for _, one := range l {
		if e := one.first(); e != nil && (best == nil || e.Before(best.Record)) {
			best = e
		}
	}
	return best
}

// line holds the ready jobs of a queue and type. Jobs of one priority mostly become ready in the order in which they are claimed, so
// each priority is a run to whose end they are added and from whose head they are taken, at a cost that does not depend on
// the length. What comes out of order waits in a heap.
type line struct {
	runs [job.MaxPriority + 1]run
	late *pile
}

func newLine() *line {
	return &line{late: newPile(func(a, b *entry) bool { return a.Before(b.Record) })}
}

func (l *line) add(e *entry) {
	if e.Priority < 0 || e.Priority > job.MaxPriority || !l.runs[e.Priority].add(e) {
		l.late.add(e)
	}
}

// first is the entry to be claimed next, or nil.
func (l *line) first() *entry {
	best := l.late.first()
	for i := range l.runs {
		if e := l.runs[i].first(); e != nil {
			if best == nil || e.Before(best.Record) {
				best = e
			}
			break // all that follows has a lower priority
		}
	}
	return best
}

// run is a list of entries in order, with holes where entries were taken out.
type run struct {
	entries []*entry
	head    int // where the first entry may be
	passed  int // how many places were cut off before entries[0]
}

// add appends an entry, unless it belongs further ahead.
func (r *run) add(e *entry) bool {
	for len(r.entries) > r.head && r.entries[len(r.entries)-1] == nil {
		r.entries = r.entries[:len(r.entries)-1]
	}
	if len(r.entries) > r.head && e.Before(r.entries[len(r.entries)-1].Record) {
		return false
	}
	e.run, e.index = r, r.passed+len(r.entries)
	r.entries = append(r.entries, e)
	return true
}

// first is the first entry, or nil.
func (r *run) first() *entry {
	for r.head < len(r.entries) && r.entries[r.head] == nil {
		r.head++
	}
	if r.head > len(r.entries)/2 { // as many were taken as are moved now
		r.passed += r.head
		n := copy(r.entries, r.entries[r.head:])
		clear(r.entries[n:])
		r.entries, r.head = r.entries[:n], 0
	}
	if len(r.entries) == 0 {
		return nil
	}
	return r.entries[r.head]
}

func (r *run) remove(e *entry) {
	r.entries[e.index-r.passed] = nil
	e.run = nil
}
