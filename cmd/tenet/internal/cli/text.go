package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/tenetdev/tenet/internal/printable"
)

// Safe is text that may go to a terminal as it is: this program's own words, or data that has been escaped. Convert only
// constants and the results of textf to it.
type Safe string

// Fprintf is [fmt.Fprintf] for people: every argument is escaped, so that data can neither forge a line nor speak to the
// terminal. All text output of this program goes through it, fprintln, textf or a log handler.
func Fprintf(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, format, escaped(args)...) // a buffer, or a stream whose failure shows elsewhere
}

// Fprintln is [fmt.Fprintln] with every argument escaped.
func Fprintln(w io.Writer, args ...any) { fmt.Fprintln(w, escaped(args)...) }

// Textf is [fmt.Sprintf] with every argument escaped.
func Textf(format string, args ...any) Safe { return Safe(fmt.Sprintf(format, escaped(args)...)) }

func escaped(args []any) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = datum{arg}
		if text, ok := arg.(Safe); ok {
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

// Joined puts texts together.
func Joined(parts []Safe, between string) Safe {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = string(p)
	}
	return Safe(strings.Join(list, between))
}

// sentences takes an error apart that errors.Join made, so that each part has its own line.
func sentences(err error) []string {
	if f, ok := err.(*Failure); ok && f.err != nil { //nolint:errorlint // taken apart layer by layer
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
