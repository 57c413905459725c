package storable

import "strings"

// longest bounds a text, in bytes.
const longest = 16 << 10

// Text returns s as valid UTF-8 without NUL and of at most 16 KiB. Other bytes become U+FFFD, and "…" stands for what is cut off.
func Text(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest-len("…")], "") + "…"
	}
	return s
}
