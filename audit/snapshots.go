package audit

import (
	"time"

	"github.com/tenetdev/tenet/internal/canonical"
	"github.com/tenetdev/tenet/policy"
)

const (
	mostEdited   = 256 // cached revisions of policies that do not hold their own
	snapshotLife = time.Hour
)

// snapshots are the policies of which the current segment of the sink holds a snapshot.
type snapshots struct {
	segment   uint64
	held      map[string]bool // by revision
	since     time.Time
	revisions map[*policy.Policy]string
}

// begin forgets the snapshots if the segment has changed, or if they are too old for readers of a tail, and of what retention
// left, to find them.
func (s *snapshots) begin(segment uint64) {
	if s.held == nil || segment != s.segment || time.Since(s.since) > snapshotLife {
		s.segment, s.held, s.since = segment, map[string]bool{}, time.Now()
	}
}

// add reports whether the segment needs a snapshot of a revision, which it then has.
func (s *snapshots) add(revision string) bool {
	if s.held[revision] {
		return false
	}
	s.held[revision] = true
	return true
}

// revision returns the policy's revision, which it computes for a policy that a call edited.
func (s *snapshots) revision(p *policy.Policy) string {
	if p.Meta.Revision != "" {
		return p.Meta.Revision
	}
	if r, ok := s.revisions[p]; ok {
		return r
	}
	r, err := p.Revise()
	if err != nil { // a NaN, which policies of providers and executors do not have
		return ""
	}
	if s.revisions == nil || len(s.revisions) >= mostEdited {
		s.revisions = make(map[*policy.Policy]string, mostEdited)
	}
	s.revisions[p] = r
	return r
}

// snapshot returns an event that holds a policy.
func snapshot(t Type, p *policy.Policy, revision string) (Event, error) {
	raw, err := canonical.Marshal(*p)
	if err != nil {
		return Event{}, err
	}
	var e Event
	e.begin(t, time.Now())
	e.Key, e.Surface, e.Category = clean(p.Key.String()), string(p.Key.Surface()), clean(p.Category.Code())
	e.PolicyID, e.PolicyRevision, e.Policy, e.CoreVersion = clean(p.ID), revision, raw, CoreVersion
	return e, nil
}
