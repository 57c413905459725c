package job

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenetdev/tenet/policy"
)

// The types of this file, bucket.go and tend.go are for stores. A job that becomes due passes the gate before it is ready:
//
//	due ──no limit──────────────────────► ready ──claim──► running ──settled, lost──► its places are free
//	 └───a limit──► waiting, in the line ──a place in the bucket of each limit──► ready
//	                of one full bucket
//
// A job is in one line at a time and takes its places all at once, so that it never holds one while it waits for another. The
// exception are places in buckets of order strict. A job takes all that it needs of these together, before it waits for any other
// place, and keeps them until it has finished, also while it waits for a retry. Where more jobs ran when such a limit came than it
// allows, one that comes back gives up all of them: if it kept some, two such jobs could wait for each other.

// Gate knows the limits in force in a store. It is immutable.
type Gate struct {
	byQueue, byType map[string][]*gateLimit
	byID            map[int64]*gateLimit
}

// gateLimit is a limit in force.
type gateLimit struct {
	policy.JobLimit
	name   LimitName
	prefix string        // of the names of its buckets
	step   time.Duration // how much later a start makes the next one, in whole microseconds
}

// NewGate makes the gate of a store's limits.
func NewGate(limits []StoredLimit) *Gate {
	g := &Gate{byQueue: map[string][]*gateLimit{}, byType: map[string][]*gateLimit{}, byID: map[int64]*gateLimit{}}
	for _, s := range limits {
		in := s.InForce()
		if in == nil {
			continue
		}
		l := &gateLimit{JobLimit: in.Normalize(), name: s.LimitName}
		kind := "c"
		switch rated, strict := l.Rate.Count > 0, l.Order == policy.OrderStrict; {
		case rated && strict:
			kind = "b"
		case rated:
			kind = "r"
		case strict:
			kind = "s"
		}
		l.prefix = bucketPrefix(kind, s.ID)
		if n := time.Duration(l.Rate.Count); n > 0 {
			l.step = (l.Rate.Per + n*time.Microsecond - 1) / (n * time.Microsecond) * time.Microsecond
		}
		g.byID[s.ID] = l
		if s.Type != "" {
			g.byType[s.Type] = append(g.byType[s.Type], l)
		} else {
			g.byQueue[s.Queue] = append(g.byQueue[s.Queue], l)
		}
	}
	return g
}

// Empty reports whether no limit is in force.
func (g *Gate) Empty() bool { return g == nil || len(g.byID) == 0 }

// Bounds reports whether the jobs of a queue and type have a limit.
func (g *Gate) Bounds(queue, jobType string) bool {
	return g != nil && (len(g.byQueue[queue]) > 0 || len(g.byType[jobType]) > 0)
}

// Prefix returns what the names of all buckets of a limit begin with, or "" if it is not in force.
func (g *Gate) Prefix(id int64) string {
	if l := g.byID[id]; l != nil {
		return l.prefix
	}
	return ""
}

// PrefixOf returns the Prefix of a limit of a store, or ErrNotFound if the store does not have it.
func (g *Gate) PrefixOf(limits []StoredLimit, name LimitName) (string, error) {
	l, found := storedLimit(limits, name)
	if !found {
		return "", fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return g.Prefix(l.ID), nil
}

// Needs returns the names of the buckets that a job needs a place in, none if it has no limit. It reads the job's queue, type,
// metadata and payload.
func (g *Gate) Needs(r *Record) (names []string) {
	if g == nil {
		return nil
	}
	for _, list := range [][]*gateLimit{g.byQueue[r.Queue], g.byType[r.Type]} {
		for _, l := range list {
			names = append(names, l.prefix+bucketKey(l.Key, r))
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { // those of order strict first
		switch {
		case keeps(a) == keeps(b):
			return 0
		case keeps(a):
			return -1
		}
		return 1
	})
	return names
}

// Entrant returns a job that comes to the gate with the places that it holds.
func (g *Gate) Entrant(r *Record, holds []string) *Entrant {
	return &Entrant{ID: r.ID, Needs: g.Needs(r), Holds: holds, Priority: r.Priority, RunAt: r.RunAt, CreatedAt: r.CreatedAt}
}

// limit returns the limit of a bucket, or nil if it is not in force.
func (g *Gate) limit(bucket string) *gateLimit {
	id, _ := splitBucket(bucket)
	return g.byID[id]
}

// WaitsFor describes the bucket that a job waits for.
func (g *Gate) WaitsFor(bucket string) string {
	id, key := splitBucket(bucket)
	text := "a limit that has changed"
	if l := g.byID[id]; l != nil {
		text = l.name.String()
	}
	if key != "" {
		text += ", " + key
	}
	return text
}
