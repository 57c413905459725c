package memory

import "github.com/tenetdev/tenet/job"

// lines are of different types.
type lines []*line

// first returns the entry in any of the lines to be claimed next, or nil.
func (l lines) first() (best *entry) {
	for _, one := range l {
		if e := one.first(); e != nil && (best == nil || e.Before(best.Record)) {
			best = e
		}
	}
	return best
}

// line holds the ready jobs of a queue and type. Jobs of one priority mostly become ready in the order in which they are claimed, so
// each priority has a run: jobs are added to its end and taken from its head, at a cost that does not depend on the length. Jobs
// that become ready out of order wait in a heap.
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

// first returns the entry to be claimed next, or nil.
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
	passed  int // how many entries were cut off before entries[0]
}

// add appends an entry. It returns false if the entry belongs further ahead.
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

// first returns the first entry, or nil.
func (r *run) first() *entry {
	for r.head < len(r.entries) && r.entries[r.head] == nil {
		r.head++
	}
	if r.head > len(r.entries)/2 { // moves at most as many entries as were taken
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
