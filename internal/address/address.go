package address

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Check refuses a URL with a control character, as it stands or escaped, in any of its parts. Servers and drivers drop some of
// them, so that such a name would address something else. The error does not show the URL, which may hold a password.
func Check(url string) error {
	for _, c := range unescape(url) {
		if unicode.IsControl(c) {
			return fmt.Errorf("the URL holds a control character (%U); remove it", c)
		}
	}
	return nil
}

// CheckNames refuses names with control characters. Its arguments are pairs of a description and a name.
func CheckNames(pairs ...string) error {
	var faults []error
	for i := 0; i+1 < len(pairs); i += 2 {
		if strings.ContainsFunc(pairs[i+1], unicode.IsControl) {
			faults = append(faults, fmt.Errorf("%s: %q holds a control character", pairs[i], pairs[i+1]))
		}
	}
	return errors.Join(faults...)
}

// unescape replaces percent-encoded bytes and leaves any other percent sign unchanged.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' && i+2 < len(text) {
			if high, low := digit(text[i+1]), digit(text[i+2]); high >= 0 && low >= 0 {
				c = byte(high<<4 | low)
				i += 2
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

func digit(c byte) int {
	if 'A' <= c && c <= 'F' {
		c += 'a' - 'A'
	}
	return strings.IndexByte("0123456789abcdef", c)
}
