package pipeline

import (
	"strings"
	"unicode"
)

// deadLetter returns the transaction as it is sent to the dead-letter sink.
func (w *worker) deadLetter() *Transaction {
	return w.t.With(WithAttempts(w.t.attempts+w.attempted), WithMetadata(map[string]string{
		MetaError: oneLine(w.cause.Cause.Error()), MetaCategory: w.cause.Category.String(), MetaStep: w.cause.Step,
		MetaConsumer: w.r.name,
	}))
}

const maxErrorBytes = 1000

// oneLine makes a text safe for any connector's headers: it returns the first line, shortened, as valid UTF-8 and without
// control characters.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return -1
		}
		return c
	}, s[:min(len(s), maxErrorBytes)])
	return strings.ToValidUTF8(s, "")
}
