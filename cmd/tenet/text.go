package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/tenetdev/tenet/internal/printable"
)

// safe is text that may go to a terminal as it is: this program's own words, or data that has been escaped. Convert only
// constants and the results of textf to it.
type safe string

// fprintf is [fmt.Fprintf] for people: every argument is escaped, so that data can neither forge a line nor speak to the
// terminal. All text output of this program goes through it, fprintln, textf or a log handler.
func fprintf(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, format, escaped(args)...) // a buffer, or a stream whose failure shows elsewhere
}

// fprintln is [fmt.Fprintln] with every argument escaped.
func fprintln(w io.Writer, args ...any) { fmt.Fprintln(w, escaped(args)...) }

// textf is [fmt.Sprintf] with every argument escaped.
func textf(format string, args ...any) safe { return safe(fmt.Sprintf(format, escaped(args)...)) }

func escaped(args []any) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = datum{arg}
		if text, ok := arg.(safe); ok {
			list[i] = string(text)
		}
	}
	return list
}

// datum is an argument that is escaped once it has been formatted.
type datum struct{ value any }

// Format implements fmt.Formatter.
func (d datum) Format(s fmt.State, verb rune) {
	_, _ = io.WriteString(s, printable.Text(fmt.Sprintf(fmt.FormatString(s, verb), d.value)))
}

// joined puts texts together.
func joined(parts []safe, between string) safe {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = string(p)
	}
	return safe(strings.Join(list, between))
}

// sentences takes an error apart that errors.Join made, so that each part has its own line.
func sentences(err error) []string {
	if f, ok := err.(*failure); ok && f.err != nil { //nolint:errorlint // taken apart layer by layer
		return sentences(f.err)
	}
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	var parts, list []string
	for _, part := range many.Unwrap() {
		parts = append(parts, part.Error())
		list = append(list, sentences(part)...)
	}
	if strings.Join(parts, "\n") != err.Error() { // it has words of its own
		return []string{err.Error()}
	}
	return list
}
