package printable_test

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/tenetdev/tenet/internal/printable"
)

func TestO1TextEscapesTerminalControls(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"order 17 für Ann, 5 €":   "order 17 für Ann, 5 €",
		`C:\new "quoted"`:         `C:\new "quoted"`,
		"a\nb\tc\rd":              `a\nb\tc\rd`,
		"\x1b[2J\x1b]0;title\x07": `\x1b[2J\x1b]0;title\a`,
		"c1 \u009b31m":            `c1 \u009b31m`,
		"nul \x00 del \x7f":       `nul \x00 del \x7f`,
		"bidi \u202e lines\u2028": `bidi \u202e lines\u2028`,
		"not UTF-8 \xff\x9b":      `not UTF-8 \xff\x9b`,
		"replacement \ufffd":      "replacement \ufffd",
		"日本語 🙂":                   "日本語 🙂",
		"no-break\u00a0space":     `no-break\u00a0space`,
	} {
		if got := printable.Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestO1AnyTextBecomesPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := string(rapid.SliceOf(rapid.Byte()).Draw(t, "raw")) + rapid.String().Draw(t, "text")
		got := printable.Text(raw)
		if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Fatalf("%q still has %q", got, got[i:])
		}
		if again := printable.Text(got); again != got {
			t.Fatalf("escaped twice: %q, %q", got, again)
		}
	})
}
