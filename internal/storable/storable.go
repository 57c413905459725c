package storable

import "strings"

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
