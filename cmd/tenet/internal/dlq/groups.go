package dlq

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/adapter/http/httpjob"
	"github.com/tenetdev/tenet/job"
)

// causeOf returns a text that is the same for all jobs that died of the same cause. It adds the path of http jobs from the
// payload, because their errors leave it out.
func causeOf(r *job.Record, text string) string {
	cause := job.Fingerprint(text)
	var payload struct {
		URL string `json:"url"`
	}
	if r.Type != httpjob.Type || json.Unmarshal(r.Payload, &payload) != nil {
		return cause
	}
	if u, err := url.Parse(payload.URL); err == nil && u.Host != "" {
		cause += " at " + job.Fingerprint(cmp.Or(u.EscapedPath(), "/"))
	}
	return cause
}

// errorGroup counts the dead jobs with the same cause.
type errorGroup struct {
	Fingerprint string    `json:"fingerprint"`
	Cause       string    `json:"cause"` // as filters name it; groups of http jobs may share one
	Count       int       `json:"count"`
	FirstSeen   time.Time `json:"first_seen"`
	LastSeen    time.Time `json:"last_seen"`
	SampleID    string    `json:"sample_id"` // of the latest one
	SampleError string    `json:"sample_error"`
}

// errorGroups collects groups.
type errorGroups map[string]*errorGroup

func (g errorGroups) add(r *job.Record) {
	text := cmp.Or(r.LastError, string(r.Reason))
	seen := r.FailedAt
	if seen.IsZero() {
		seen = r.FinishedAt
	}
	f := causeOf(r, text)
	group := g[f]
	if group == nil {
		group = &errorGroup{Fingerprint: f, Cause: r.Cause, FirstSeen: seen}
		g[f] = group
	}
	group.Count++
	if seen.Before(group.FirstSeen) {
		group.FirstSeen = seen
	}
	if !seen.Before(group.LastSeen) {
		group.LastSeen, group.SampleID, group.SampleError = seen, r.ID, text
	}
}

// list is the groups, the largest first.
func (g errorGroups) list() []errorGroup {
	list := make([]errorGroup, 0, len(g))
	for _, group := range g {
		list = append(list, *group)
	}
	slices.SortFunc(list, func(a, b errorGroup) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(a.Fingerprint, b.Fingerprint))
	})
	return list
}
