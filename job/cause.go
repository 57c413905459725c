package job

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/policy"
)

// patterns are the parts of error texts that differ between jobs. The first alternatives of numbers match numbers that belong
// to the cause: exit codes, HTTP statuses and short numbers in paths.
type patterns struct{ uuids, quoted, hexadecimal, numbers *regexp.Regexp }

var compiled = sync.OnceValue(func() patterns {
	return patterns{
		uuids:       regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`),
		quoted:      regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|(?:^|\\B)'[^']*'(?:\\B|$)"),
		hexadecimal: regexp.MustCompile(`(?i)\b(?:0x[0-9a-f]+|(?:[0-9]+[a-f]|[a-f]+[0-9])[0-9a-f]{6,})\b`),
		numbers: regexp.MustCompile(`\b(?i:exit (?:code|status)) [0-9]+|\b(?i:status(?: code)?|http(?:/[0-9.]+)?)[ :=]+[1-5][0-9]{2}\b` +
			`|\b[1-5][0-9]{2} [A-Z][A-Za-z'-]+|/[a-zA-Z_]+[0-9]{1,2}\b|[0-9]+(?:\.[0-9]+)*`),
	}
})

// maxFingerprint bounds how much of a text counts, in bytes: its beginning says what went wrong.
const maxFingerprint = 2048

// Fingerprint replaces the numbers, hexadecimal strings, UUIDs and quoted texts in the first 2 KiB of an error text by
// placeholders, and joins white space, so that errors with the same cause have the same fingerprint. It keeps exit codes, HTTP
// statuses, paths and names of programs.
func Fingerprint(text string) string {
	if len(text) > maxFingerprint {
		text = strings.ToValidUTF8(text[:maxFingerprint], "")
	}
	p := compiled()
	text = p.uuids.ReplaceAllString(text, "<uuid>")
	var b strings.Builder
	end := 0
	for _, at := range p.quoted.FindAllStringIndex(text, -1) {
		b.WriteString(text[end:at[0]])
		if part := text[at[0]:at[1]]; strings.Contains(part, "/") && !strings.ContainsAny(part, " \t\n") || strings.HasSuffix(text[:at[0]], "exec: ") {
			b.WriteString(part)
		} else {
			b.WriteString("<text>")
		}
		end = at[1]
	}
	text = p.hexadecimal.ReplaceAllString(b.String()+text[end:], "<hex>")
	text = p.numbers.ReplaceAllStringFunc(text, func(match string) string {
		if strings.Trim(match, "0123456789.") == "" {
			return "<n>"
		}
		return match
	})
	return strings.Join(strings.Fields(text), " ")
}

// CauseOf returns the cause of a death by its error or, where that is empty, its reason: 12 hexadecimal digits of the SHA-256
// of the text's fingerprint.
func CauseOf(text string, reason policy.Reason) string {
	sum := sha256.Sum256([]byte(Fingerprint(cmp.Or(text, string(reason)))))
	return hex.EncodeToString(sum[:6])
}

// CauseText returns the fingerprint that the cause of a dead job stands for, or "" for a job that died before causes were kept.
func (r *Record) CauseText() string {
	switch r.Cause {
	case "":
		return ""
	case CauseOf(r.LastError, r.Reason):
		return Fingerprint(cmp.Or(r.LastError, string(r.Reason)))
	}
	return Fingerprint(string(r.Reason)) // of a job that was not run again after its last error
}

// Causer is implemented by stores that count dead jobs by cause.
type Causer interface {
	// Causes returns the largest groups of dead jobs.
	Causes(ctx context.Context, q CauseQuery) (Causes, error)
}

// CauseQuery asks for groups of dead jobs.
type CauseQuery struct {
	// Filter selects jobs; its States are ignored. A filter by queue, type and cause only, or none, is answered from kept
	// counts. With any other, at most the newest 10,000 dead jobs are looked at, for at most a second.
	Filter Filter
	Limit  int // groups; default 100
}

// Causes are groups of dead jobs, the largest first.
type Causes struct {
	Groups []CauseGroup
	// Looked is how many of the newest dead jobs were counted, or 0 if all were. More is set if others were not looked at.
	Looked int
	More   bool
}

// CauseGroup counts the dead jobs of a queue and type that died of the same cause.
type CauseGroup struct {
	Cause       string        `json:"cause"` // as filters name it; "" for jobs that died before causes were kept
	Fingerprint string        `json:"fingerprint"`
	Queue       string        `json:"queue"`
	Type        string        `json:"type"`
	Reason      policy.Reason `json:"reason"`
	Count       int           `json:"count"`
	FirstSeen   time.Time     `json:"first_seen"` // since the group has had jobs without a break
	LastSeen    time.Time     `json:"last_seen"`
	Samples     []string      `json:"samples"` // the IDs of the newest jobs, at most 3
}

// The bounds of groups.
const (
	causeGroups  = 100
	CauseSamples = 3 // the most IDs in CauseGroup.Samples
	causeNewest  = 10_000
	causeWithin  = time.Second
)

// Groups is how many groups are asked for.
func (q *CauseQuery) Groups() int { return cmp.Or(max(q.Limit, 0), causeGroups) }

// Kept reports whether kept counts answer the query.
func (q *CauseQuery) Kept() bool {
	f := q.Filter
	f.Queue, f.Type, f.States, f.Terms = "", "", nil, slices.DeleteFunc(slices.Clone(f.Terms), func(t filter.Term) bool {
		return t.Field == FieldQueue || t.Field == FieldType || t.Field == FieldCause
	})
	return f.String() == ""
}

// Selects reports whether the filter of a query that kept counts answer selects a group.
func (q *CauseQuery) Selects(g CauseGroup) bool {
	f := q.Filter
	f.States = nil
	return f.Matches(&Record{Queue: g.Queue, Type: g.Type, Cause: g.Cause})
}

// Describe completes a group from its newest jobs.
func (g *CauseGroup) Describe(newest []*Record) {
	g.Samples = []string{}
	for i, r := range newest {
		if i == 0 {
			g.Fingerprint, g.Reason = r.CauseText(), r.Reason
		}
		g.Samples = append(g.Samples, r.ID)
	}
}

// SortCauses sorts groups by size, the largest first, then by name, and returns at most n.
func SortCauses(groups []CauseGroup, n int) []CauseGroup {
	slices.SortFunc(groups, func(a, b CauseGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Type, b.Type))
	})
	return groups[:min(len(groups), n)]
}

// causeKey tells groups apart.
type causeKey struct{ cause, queue, jobType string }

// Over answers a query from the newest dead jobs of a store. Stores call it for queries that kept counts do not answer.
func (q CauseQuery) Over(ctx context.Context, s Searcher) (Causes, error) {
	found, err := s.Search(ctx, Search{Filter: deadOnly(q.Filter), Limit: causeNewest, Within: causeWithin})
	if err != nil {
		return Causes{}, err
	}
	out := Causes{Looked: len(found.Jobs), More: found.Next != ""}
	groups := map[causeKey]*CauseGroup{}
	newest := map[causeKey][]*Record{}
	for _, r := range found.Jobs { // newest first
		k := causeKey{r.Cause, r.Queue, r.Type}
		g := groups[k]
		if g == nil {
			g = &CauseGroup{Cause: r.Cause, Queue: r.Queue, Type: r.Type, FirstSeen: r.FinishedAt, LastSeen: r.FinishedAt}
			groups[k] = g
		}
		g.Count++
		if r.FinishedAt.Before(g.FirstSeen) {
			g.FirstSeen = r.FinishedAt
		}
		if r.FinishedAt.After(g.LastSeen) {
			g.LastSeen = r.FinishedAt
		}
		if len(newest[k]) < CauseSamples {
			newest[k] = append(newest[k], r)
		}
	}
	for k, g := range groups {
		g.Describe(newest[k])
		out.Groups = append(out.Groups, *g)
	}
	out.Groups = SortCauses(out.Groups, q.Groups())
	return out, nil
}
