package pipeline

import (
	"strings"
	"unicode"
)

// letter returns the transaction in the form that goes to the dead-letter sink.
func (w *worker) letter() *Transaction {
	return w.t.With(WithAttempts(w.t.attempts+w.spent), WithMetadata(map[string]string{
		MetaError: oneLine(w.cause.Cause.Error()), MetaCategory: w.cause.Category.String(), MetaStep: w.cause.Step,
		MetaConsumer: w.r.name,
	}))
}

const longestError = 1000

// oneLine makes a text safe for any connector's headers: its first line, without control characters, as valid UTF-8, and
// shortened.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return -1
		}
		return c
	}, s[:min(len(s), longestError)])
	return strings.ToValidUTF8(s, "")
}
