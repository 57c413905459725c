package storable

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// longest bounds a text, in bytes.
const longest = 16 << 10

// Text returns s as valid UTF-8 without NUL and of at most 16 KiB. Other bytes become U+FFFD, and "…" stands for what is cut off.
func Text(s string) string { return cut(clean(s), longest) }

// WithEnd returns the Text of s followed by end. If that is too long, s is cut off, and end only above 8 KiB.
func WithEnd(s, end string) string {
	end = cut(clean(end), longest/2)
	return cut(clean(s), longest-len(end)) + end
}

func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func cut(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most-len("…")], "") + "…"
	}
	return s
}

// JSON reports whether encoding/json reads every text of raw, which is JSON, as it is. It would replace bytes that are not UTF-8, and
// unpaired surrogates, so that different texts became the same.
func JSON(raw []byte) bool { return utf8.Valid(raw) && !Escapes(raw, utf16.IsSurrogate) }

// Escapes reports whether raw, which is JSON, escapes a character that is, as \uXXXX. A pair of surrogates is one character.
func Escapes(raw []byte, is func(rune) bool) bool {
	for i := 0; i < len(raw); i++ {
		next := bytes.IndexByte(raw[i:], '\\')
		if next < 0 {
			return false
		}
		i += next
		r, escaped := escapedUnit(raw[i:])
		i++ // skip the escaped character, which may be another backslash
		if !escaped {
			continue
		}
		i += 4
		low, _ := escapedUnit(raw[i+1:])
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			r, i = pair, i+6
		}
		if is(r) {
			return true
		}
	}
	return false
}

// escapedUnit reads the UTF-16 unit of an escape at the start of JSON text.
func escapedUnit(raw []byte) (rune, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(n), err == nil
}
