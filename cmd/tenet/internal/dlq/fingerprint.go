package dlq

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/adapter/http/httpjob"
	"github.com/tenetdev/tenet/job"
)

// The parts of error texts that differ between jobs. The first alternatives of numbers match numbers that belong to the cause:
// exit codes, HTTP statuses and short numbers in paths.
var (
	uuids       = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	quoted      = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|(?:^|\\B)'[^']*'(?:\\B|$)")
	hexadecimal = regexp.MustCompile(`(?i)\b(?:0x[0-9a-f]+|(?:[0-9]+[a-f]|[a-f]+[0-9])[0-9a-f]{6,})\b`)
	numbers     = regexp.MustCompile(`(?i)\bexit (?:code|status) [0-9]+|\b(?:status(?: code)?|http(?:/[0-9.]+)?)[ :=]+[1-5][0-9]{2}\b` +
		`|\b[1-5][0-9]{2} (?:` + statusTexts() + `)|/[a-z_]+[0-9]{1,2}\b|[0-9]+(?:\.[0-9]+)*`)
)

func statusTexts() string {
	var texts []string
	for code := 100; code < 600; code++ {
		if text := http.StatusText(code); text != "" {
			texts = append(texts, regexp.QuoteMeta(text))
		}
	}
	return strings.Join(texts, "|")
}

// fingerprint replaces the numbers, hexadecimal strings, UUIDs and quoted texts of an error text by placeholders, and joins
// white space. It keeps exit codes, HTTP statuses, paths and names of programs.
func fingerprint(text string) string {
	text = uuids.ReplaceAllString(text, "<uuid>")
	var b strings.Builder
	end := 0
	for _, at := range quoted.FindAllStringIndex(text, -1) {
		b.WriteString(text[end:at[0]])
		if part := text[at[0]:at[1]]; strings.Contains(part, "/") && !strings.ContainsAny(part, " \t\n") || strings.HasSuffix(text[:at[0]], "exec: ") {
			b.WriteString(part)
		} else {
			b.WriteString("<text>")
		}
		end = at[1]
	}
	text = hexadecimal.ReplaceAllString(b.String()+text[end:], "<hex>")
	text = numbers.ReplaceAllStringFunc(text, func(match string) string {
		if strings.Trim(match, "0123456789.") == "" {
			return "<n>"
		}
		return match
	})
	return strings.Join(strings.Fields(text), " ")
}

// causeOf returns a text that is the same for all jobs that died of the same cause. It adds the path of http jobs from the
// payload, because their errors leave it out.
func causeOf(r *job.Record, text string) string {
	cause := fingerprint(text)
	var payload struct {
		URL string `json:"url"`
	}
	if r.Type != httpjob.Type || json.Unmarshal(r.Payload, &payload) != nil {
		return cause
	}
	if u, err := url.Parse(payload.URL); err == nil && u.Host != "" {
		cause += " at " + fingerprint(cmp.Or(u.EscapedPath(), "/"))
	}
	return cause
}

// errorGroup counts the dead jobs with the same cause.
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
	f := causeOf(r, text)
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
