package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenetdev/tenet/policy"
)

// Query selects lines of a log.
type Query struct {
	// WorkID selects the lines of a call, job or transaction. "" selects those of any.
	WorkID string
	// Type is "", or one that [Indexed] reports.
	Type Type
	// Before is the cursor of a line: only lines before it are selected. "" selects from the end.
	Before string
}

// Finder is implemented by sources that read backwards, and that have indexes.
type Finder interface {
	// Find calls f for each line that a query selects, the newest first, until there are no more, f fails or ctx is done. It
	// reads no others. The line is valid until f returns.
	Find(ctx context.Context, q Query, f func(cursor string, line []byte) error) error
}

// Indexed reports whether sources find the events of a type through an index: those that are rare.
func Indexed(t Type) bool { return t == PolicySnapshot || t == PolicyChanged || t == OperatorAction }

// Check returns an error if a Finder cannot answer the query.
func (q Query) Check() error {
	if q.Type != "" && !Indexed(q.Type) {
		return fmt.Errorf("audit: find: events of type %q have no index", q.Type)
	}
	return nil
}

// mostSnapshots bounds the snapshots that are looked at for the policies of one piece of work.
const mostSnapshots = 10_000

// workRecord is what a log holds of one piece of work.
type workRecord struct {
	events     []Event          // without duplicates, in the order of the log or its reverse
	snapshots  map[string]Event // policies that the events name, and possibly others, by revision
	unreadable int              // lines of the log that are not events
}

// policies returns the policies of the snapshots that can be read, by revision.
func (w *workRecord) policies() map[string]*policy.Policy {
	policies := make(map[string]*policy.Policy, len(w.snapshots))
	for revision, e := range w.snapshots {
		if p, err := e.Snapshot(); err == nil {
			policies[revision] = p
		}
	}
	return policies
}

// findWork reads the events of a piece of work, and the policies that they name, through the indexes of a log.
func findWork(ctx context.Context, s Finder, workID string) (w workRecord, err error) {
	seen, missing := map[string]bool{}, map[string]bool{}
	err = s.Find(ctx, Query{WorkID: workID}, func(_ string, line []byte) error {
		e, err := ParseLine(line)
		if err != nil || e.WorkID != workID || seen[e.ID] {
			return nil //nolint:nilerr // Verify reports it
		}
		seen[e.ID] = true
		w.events = append(w.events, e)
		missing[e.PolicyRevision] = true
		return nil
	})
	if err != nil {
		return w, err
	}
	w.snapshots = map[string]Event{}
	return w, findSnapshots(ctx, s, missing, func(e Event, _ []byte) { w.snapshots[e.PolicyRevision] = e })
}

// findSnapshots calls f for the newest snapshot of each of the revisions, which it removes.
func findSnapshots(ctx context.Context, s Finder, revisions map[string]bool, f func(e Event, line []byte)) error {
	delete(revisions, "")
	if len(revisions) == 0 {
		return nil
	}
	looked := 0
	err := s.Find(ctx, Query{Type: PolicySnapshot}, func(_ string, line []byte) error {
		if e, err := ParseLine(line); err == nil && e.Policy != nil && revisions[e.PolicyRevision] {
			f(e, line)
			delete(revisions, e.PolicyRevision)
		}
		if looked++; len(revisions) == 0 || looked == mostSnapshots {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
