package printable

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text escapes what cannot be printed in s as a Go string literal does, for example \n or \x1b: control characters including
// newline and tab, invisible characters, characters that change the text's direction, and invalid UTF-8. The result is a single
// line. Everything else is unchanged, including backslashes and quotes.
func Text(s string) string {
	i := strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
	if i < 0 {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	b = append(b, s[:i]...)
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, '\\', 'x', hex[s[i]>>4], hex[s[i]&15])
		case !unicode.IsPrint(r):
			quoted := strconv.AppendQuoteRune(nil, r)
			b = append(b, quoted[1:len(quoted)-1]...)
		default:
			b = append(b, s[i:i+size]...)
		}
		i += size
	}
	return string(b)
}

const hex = "0123456789abcdef"
