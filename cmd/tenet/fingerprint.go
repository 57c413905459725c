package main

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/job"
)

// The parts of error texts that differ from job to job, and what stands for them, in the order in which they are looked for.
var changing = []struct {
	part *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "<uuid>"},
	{regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|(?:^|\\B)'[^']*'(?:\\B|$)"), "<text>"},
	{regexp.MustCompile(`(?i)\b0x[0-9a-f]+\b`), "<hex>"},
	{regexp.MustCompile(`(?i)\b(?:[0-9]+[a-f]|[a-f]+[0-9])[0-9a-f]{6,}\b`), "<hex>"},
	{regexp.MustCompile(`[0-9]+(?:\.[0-9]+)*`), "<n>"},
}

// fingerprint is what an error text has in common with others of its kind: numbers, hexadecimal strings, UUIDs and quoted
// texts are replaced, white space is joined.
func fingerprint(text string) string {
	for _, c := range changing {
		text = c.part.ReplaceAllString(text, c.by)
	}
	return strings.Join(strings.Fields(text), " ")
}

// errorGroup is jobs that died of the same kind of error.
type errorGroup struct {
	Fingerprint string    `json:"fingerprint"`
	Count       int       `json:"count"`
	FirstSeen   time.Time `json:"first_seen"`
	LastSeen    time.Time `json:"last_seen"`
	SampleID    string    `json:"sample_id"` // of the latest one
	SampleError string    `json:"sample_error"`
}

// errorGroups collects groups.
type errorGroups map[string]*errorGroup

func (g errorGroups) add(r *job.Record) {
	text := r.LastError
	if text == "" {
		text = string(r.Reason)
	}
	seen := r.FailedAt
	if seen.IsZero() {
		seen = r.FinishedAt
	}
	f := fingerprint(text)
	group := g[f]
	if group == nil {
		group = &errorGroup{Fingerprint: f, FirstSeen: seen}
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
