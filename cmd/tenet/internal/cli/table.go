package cli

import (
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Moment parses a time, or a duration before now. Empty text is the zero time.
func Moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, Usagef("--%s %q: write a time such as 2026-03-02T08:00:00Z, or a duration such as 24h", flag, text)
	}
	return t, nil
}

// Table writes rows in columns below a heading, or "none".
func Table[T any](w io.Writer, heading string, rows []T, cells func(T) []any) {
	if len(rows) == 0 {
		Fprintln(w, "none")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	Fprintln(t, Safe(heading))
	for _, r := range rows {
		for i, cell := range cells(r) {
			if i > 0 {
				Fprintf(t, "\t")
			}
			Fprintf(t, "%v", cell)
		}
		Fprintln(t)
	}
	_ = t.Flush() // w is a buffer
}

// AsTable returns a function that writes rows as [Table] does, for [App.Print].
func AsTable[T any](heading string, rows []T, cells func(T) []any) func(io.Writer) {
	return func(w io.Writer) { Table(w, heading, rows, cells) }
}

// AsLine returns a function that writes a line of text, for [App.Print].
func AsLine(format string, args ...any) func(io.Writer) {
	return func(w io.Writer) { Fprintln(w, Textf(format, args...)) }
}

// Clock writes a time in UTC to the second; "-" where there is none.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// OneLine returns the first 80 characters of a text on one line.
func OneLine(s string) string {
	const most = 80
	s = WholeLine(s)
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// WholeLine returns a text on one line.
func WholeLine(s string) string { return strings.Join(strings.Fields(s), " ") }
