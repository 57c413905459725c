package fields

import (
	"fmt"
	"regexp"
	"unicode/utf8"
)

// Patterns that the schema states too.
const (
	// DurationPattern matches durations in strings.
	DurationPattern = `^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	// NamePattern matches keys, queues, classes and all other names: no control characters, no white space at
	// either end.
	NamePattern = `^[^\p{Z}\p{Cc}]([^\p{Cc}]*[^\p{Z}\p{Cc}])?$`
	// MaxName is the most characters of a name.
	MaxName = 255
)

var (
	durationForm = regexp.MustCompile(DurationPattern)
	nameForm     = regexp.MustCompile(NamePattern)
)

// DurationForm reports whether s has the form of a duration, such as "250ms" or "1h30m".
func DurationForm(s string) bool { return durationForm.MatchString(s) }

// BadName describes the fault of a name, or returns "".
func BadName(name string) string {
	switch {
	case name == "":
		return "an empty name"
	case utf8.RuneCountInString(name) > MaxName:
		return fmt.Sprintf("a name of more than %d characters", MaxName)
	case !nameForm.MatchString(name):
		return fmt.Sprintf("%.60q begins or ends with white space, or holds control characters", name)
	}
	return ""
}
