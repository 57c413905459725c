package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// CaseVersion is the version of the form of a [Case].
const CaseVersion = 1

// Case is the record of one piece of work, taken out of a log: its events and the snapshots of the policies that they name. It
// needs nothing else to be replayed or explained. Its JSON form is a file for the test data of a program; [ParseCase] reads it.
// A Case is a [Source]. It is not a log that [Verify] accepts, because the events between are missing from its chains.
//
// What the log has redacted is redacted in the case. Nothing else is left out: error messages and attributes are in it.
type Case struct {
	Version int     `json:"version"` // CaseVersion
	WorkID  string  `json:"work_id"`
	Events  []Event `json:"events"` // the snapshots first, then the events of the work in its order
	// Unreadable counts the lines of the log that are not events; some may belong to the work.
	Unreadable int `json:"unreadable,omitempty"`
}

// Extract collects what the log holds about one call, job or transaction. It fails with [ErrNoWork] if the log has no event of it.
func Extract(ctx context.Context, s Source, workID string) (*Case, error) {
	w, err := recordOf(ctx, "extract", s, workID)
	if err != nil {
		return nil, err
	}
	c := &Case{Version: CaseVersion, WorkID: workID, Unreadable: w.unreadable}
	named := map[string]bool{}
	for i := range w.events {
		named[w.events[i].PolicyRevision] = true
	}
	for revision, e := range w.snapshots {
		if named[revision] {
			c.Events = append(c.Events, e)
		}
	}
	slices.SortFunc(c.Events, func(a, b Event) int { return cmp.Compare(a.PolicyRevision, b.PolicyRevision) })
	c.Events = append(c.Events, inOrder(w.events)...)
	return c, nil
}

// ParseCase reads the JSON form of a case. It fails if the version is unknown, if an event cannot be read or belongs to other
// work, or if the case holds no decision.
func ParseCase(text []byte) (*Case, error) {
	var c Case
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("audit: case: %w; write one with tenet audit extract", err)
	}
	if c.Version != CaseVersion {
		return nil, fmt.Errorf("audit: case: version: %d is not %d; write the case again with tenet audit extract", c.Version, CaseVersion)
	}
	decisions := 0
	for i := range c.Events {
		e := &c.Events[i]
		switch problem := e.problem(e.ID != ""); {
		case problem != "":
			return nil, fmt.Errorf("audit: case: events[%d]: %s", i, problem)
		case e.Policy == nil && e.WorkID != c.WorkID:
			return nil, fmt.Errorf("audit: case: events[%d]: work_id: %q is not the work_id of the case, %q", i, e.WorkID, c.WorkID)
		case isDecision(e.Type):
			decisions++
		}
	}
	if decisions == 0 {
		return nil, errors.New("audit: case: events: no decision is recorded, so that there is nothing to replay")
	}
	return &c, nil
}

// Read implements [Source]. A cursor is of no use: every call reads the whole case.
func (c *Case) Read(ctx context.Context, _ string, f func(cursor string, line []byte) error) error {
	for i := range c.Events {
		line, err := c.Events[i].MarshalJSON()
		if err = errors.Join(ctx.Err(), err); err != nil {
			return err
		}
		if err := f("", line); err != nil {
			return err
		}
	}
	return nil
}
