package audit

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Text from users is bounded, so that every event fits into every sink, such as a NATS server with its default of 1 MiB,
// even if every byte has to be escaped.
const (
	longestText    = 8 << 10
	longestRaw     = 3 * longestText // until the text is redacted: the cut must not hide half a secret from a pattern
	mostAttributes = 64
	attributeBytes = 16 << 10  // of all names and values together
	operatorBytes  = 512 << 10 // the same of an operator's action, which names every job that it changes
	largestEvent   = 1<<20 - 1<<16
)

// clean makes text storable everywhere: valid UTF-8 without NUL (PostgreSQL takes neither), of a bounded length.
func clean(s string) string { return shorten(plainText(s), longestText) }

// raw is clean for text that [Redaction.finish] redacts and cuts.
func raw(s string) string { return shorten(plainText(s), longestRaw) }

func plainText(s string) string {
	if plain(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// shorten cuts plain text.
func shorten(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	cut := longest
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func plain(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// rawAll is raw for attributes. It returns m itself where nothing is to be changed.
func rawAll(m map[string]string) map[string]string { return bounded(m, attributeBytes, raw) }

// bounded applies bound to the values of attributes, and leaves out what exceeds the limits.
func bounded(m map[string]string, most int, bound func(string) string) map[string]string {
	same, size := len(m) <= mostAttributes, 0
	for k, v := range m {
		same, size = same && clean(k) == k && bound(v) == v, size+len(k)+min(len(v), longestText)
	}
	if same && size <= most {
		return m
	}
	kept := make(map[string]string, min(len(m), mostAttributes))
	size = 0
	for _, k := range slices.Sorted(maps.Keys(m)) {
		name, value := clean(k), bound(m[k])
		if size += len(name) + min(len(value), longestText); len(kept) == mostAttributes || size > most {
			break
		}
		kept[name] = value
	}
	return kept
}

// describe returns the type and the text of an error. The type is the first in its tree that says something: wrappers that
// fmt, errors and this module put around errors do not.
func describe(err error) (kind, message string) {
	if err == nil {
		return "", ""
	}
	defer func() {
		if v := recover(); v != nil { // the error's own methods
			kind, message = fmt.Sprintf("%T", err), clean(fmt.Sprintf("panic in the error's method: %v", v))
		}
	}()
	message = raw(err.Error())
	return raw(typeName(err)), message
}

func typeName(err error) string {
	for {
		name := reflect.TypeOf(err).String()
		inner := unwrapped(err)
		if inner == nil || !slices.Contains(wrappers, name) {
			return name
		}
		err = inner
	}
}

// wrappers are types of errors that only carry others.
var wrappers = []string{"*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*classify.marked", "*retry.Error"}

// unwrapped is the error inside, the first of several.
func unwrapped(err error) error {
	switch e := err.(type) { //nolint:errorlint // it is the unwrapping
	case interface{ Unwrap() error }:
		return e.Unwrap()
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if inner != nil {
				return inner
			}
		}
	}
	return nil
}
