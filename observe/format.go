package observe

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxErrorRunes keeps a row of the text form on one line of a wide terminal.
const maxErrorRunes = 100

// Failed reports whether the work ended without success. A stored result that an idempotency guard returned is a success.
func (t Timeline) Failed() bool { return t.FinalError != nil || !t.Reason.Succeeded() }

// Ran returns the number of attempts whose operation ran, hedges included. Denied attempts did not run. Earlier attempts of a
// stored job, before this timeline, count too.
func (t Timeline) Ran() int {
	n := 0
	if len(t.Attempts) > 0 {
		n = max(t.Attempts[0].Attempt-1, 0)
	}
	for _, a := range t.Attempts {
		if !a.Denied {
			n++
		}
	}
	return n
}

// String returns the timeline in readable form: a line with the key, the policy's ID, the result, the attempts that ran, the
// total time and the reason; then a table with a row per attempt, whose start is relative to the start of the work.
// Durations are rounded to three digits, errors are cut to one line. The form may change between versions; programs should
// use the JSON form.
func (t Timeline) String() string {
	var b strings.Builder
	t.writeHead(&b)
	if len(t.Attempts) == 0 {
		if t.FinalError != nil {
			b.WriteString("  error: " + oneLine(t.FinalError.Error()) + "\n")
		}
		return b.String()
	}
	rows := [][]string{{"#", "start", "took", "outcome", "reason", "backoff", "error"}}
	for i := range t.Attempts {
		rows = append(rows, t.row(&t.Attempts[i]))
	}
	writeAligned(&b, rows)
	return b.String()
}

// String returns the timeline of the call that ended last, in readable form, or a text that no call has ended.
func (c *Capture) String() string {
	if t, ok := c.Timeline(); ok {
		return t.String()
	}
	return "no call has ended\n"
}

func (t Timeline) writeHead(b *strings.Builder) {
	b.WriteString(oneLine(t.Key.String()))
	if t.PolicyID != "" {
		b.WriteString(" (policy " + oneLine(t.PolicyID) + ")")
	}
	result := "succeeded"
	if t.Failed() {
		result = "failed"
	}
	attempts := "attempts"
	if t.Ran() == 1 {
		attempts = "attempt"
	}
	fmt.Fprintf(b, " %s after %d %s in %s: %s\n", result, t.Ran(), attempts, rounded(t.End.Sub(t.Start)), oneLine(string(t.Reason)))
	if fallback := t.Attributes.Get(AttrFallback); fallback != "" {
		b.WriteString("  fallback: " + oneLine(fallback) + "\n")
	}
}

func (t Timeline) row(a *AttemptRecord) []string {
	number := strconv.Itoa(a.Attempt)
	if a.HedgeIndex > 0 {
		number += " hedge"
	}
	took, outcome := rounded(a.End.Sub(a.Start)), a.Outcome.Kind.String()
	if a.Denied {
		took, outcome = "-", "denied"
	}
	backoff := "-"
	if a.Backoff > 0 {
		backoff = rounded(a.Backoff)
	}
	if wait, waited := a.LimitWait(); waited {
		backoff = strings.TrimPrefix(backoff+" + limit "+rounded(wait), "- + ")
	}
	return []string{
		number, "+" + rounded(a.Start.Sub(t.Start)), took, outcome, oneLine(string(a.Outcome.Reason)), backoff, oneLine(text(a.Err)),
	}
}

// writeAligned writes rows as columns, two spaces apart, without trailing space.
func writeAligned(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString("  " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// rounded formats a duration with three significant digits, and at most to the microsecond.
func rounded(d time.Duration) string {
	unit := time.Microsecond
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// oneLine makes text safe for a terminal: each run of white space and control characters becomes one space, and text that is
// too long is cut.
func oneLine(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
	runes := []rune(strings.Join(words, " "))
	if len(runes) <= maxErrorRunes {
		return string(runes)
	}
	return string(runes[:maxErrorRunes-1]) + "…"
}
