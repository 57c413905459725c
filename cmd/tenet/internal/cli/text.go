package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/printable"
)

// Safe is text that can be printed to a terminal unchanged: the program's own text, or escaped data. Convert only constants
// and results of Textf to it.
type Safe string

// Fprintf is [fmt.Fprintf] with every argument escaped, so that data can neither forge a line nor control the terminal. All text
// output of this program goes through Fprintf, Fprintln, Textf or a log handler.
func Fprintf(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, format, escaped(args)...) // w is a buffer, or stderr
}

// Fprintln is [fmt.Fprintln] with every argument escaped.
func Fprintln(w io.Writer, args ...any) { fmt.Fprintln(w, escaped(args)...) }

// Textf is [fmt.Sprintf] with every argument escaped.
func Textf(format string, args ...any) Safe { return Safe(fmt.Sprintf(format, escaped(args)...)) }

func escaped(args []any) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = argument{arg}
		if text, ok := arg.(Safe); ok {
			list[i] = string(text)
		}
	}
	return list
}

// argument is escaped after it has been formatted.
type argument struct{ value any }

// Format implements fmt.Formatter.
func (a argument) Format(s fmt.State, verb rune) {
	_, _ = io.WriteString(s, printable.Text(fmt.Sprintf(fmt.FormatString(s, verb), a.value)))
}

// Joined is [strings.Join] for Safe.
func Joined(parts []Safe, between string) Safe {
	return Safe(strings.Join(lists.Texts(parts), between))
}

// sentences splits an error made by errors.Join, so that each part is printed on a line of its own.
func sentences(err error) []string {
	if f, ok := err.(*Failure); ok && f.err != nil { //nolint:errorlint // unwrapped layer by layer
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
	if strings.Join(parts, "\n") != err.Error() { // it adds text to its parts
		return []string{err.Error()}
	}
	return list
}
