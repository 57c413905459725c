package audit

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// encoder appends canonical JSON (RFC 8785): members in the order of their names, numbers as ECMAScript writes them, and no
// escapes in strings but the necessary ones.
type encoder struct {
	b            []byte
	keys         []string // of a map, in their order
	hash, before int      // where the members hash and prev_hash of the last event are
	codec        codec
}

// event appends e.
func (w *encoder) event(e *Event) {
	w.codec.w = w
	write(&w.codec, e, (*Event).members)
}

// name begins a member. Each brings a comma, and end makes a brace of the first.
func (w *encoder) name(quoted string) { w.b = append(w.b, quoted...) }

// end ends the object whose members begin at start.
func (w *encoder) end(start int) {
	if len(w.b) == start {
		w.b = append(w.b, '{')
	}
	w.b[start] = '{'
	w.b = append(w.b, '}')
}

func (w *encoder) comma(i int) {
	if i > 0 {
		w.b = append(w.b, ',')
	}
}

func (w *encoder) texts(name string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	w.name(name)
	w.keys = sortedKeys(w.keys[:0], m)
	w.b = append(w.b, '{')
	for i, k := range w.keys {
		w.comma(i)
		w.b = appendString(w.b, k)
		w.b = append(w.b, ':')
		w.b = appendString(w.b, m[k])
	}
	w.b = append(w.b, '}')
}

const hexDigits = "0123456789abcdef"

// appendString writes s as RFC 8785 section 3.2.2.2 says. What is not UTF-8 becomes U+FFFD, as encoding/json does.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := len(b)
	if b = slices.Grow(b, len(s)+1)[:start+len(s)]; !copyPlain(b[start:], s) {
		b = appendEscaped(b[:start], s)
	}
	return append(b, '"')
}

// copyPlain copies s to b and reports whether it is ASCII that needs no escape. It takes eight bytes at a time, or four; the
// last ones may overlap those before.
func copyPlain(b []byte, s string) bool {
	from, order := []byte(s), binary.LittleEndian
	n := len(from)
	b = b[:n]
	switch {
	case n < 4:
		return copyShort(b, from)
	case n < 8:
		x, y := order.Uint32(from), order.Uint32(from[n-4:])
		order.PutUint32(b, x)
		order.PutUint32(b[n-4:], y)
		return special(uint64(x)|uint64(y)<<32)&tops == 0
	}
	var marks uint64
	for i := 0; i < n-8; i += 8 {
		x := order.Uint64(from[i:])
		order.PutUint64(b[i:], x)
		marks |= special(x)
	}
	x := order.Uint64(from[n-8:])
	order.PutUint64(b[n-8:], x)
	return (marks|special(x))&tops == 0
}

func copyShort(b, from []byte) bool {
	for i, c := range from {
		if b[i] = c; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

const ones, tops = 0x0101010101010101, 0x8080808080808080

// special sets the top bit of a byte that is not ASCII or is to be escaped: its own is set, or a subtraction goes below
// zero, of 0x20 from the byte or of 1 from its difference to a character that is escaped. A byte behind such a byte may be
// marked too.
func special(x uint64) uint64 {
	return x | (x - ones*' ') | ((x ^ ones*'"') - ones) | ((x ^ ones*'\\') - ones)
}

func appendEscaped(b []byte, s string) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[start:i]...), "\ufffd"...)
				start = i + 1
			}
			i += size
			continue
		}
		b = append(b, s[start:i]...)
		b = appendEscape(b, c)
		i++
		start = i
	}
	return append(b, s[start:]...)
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\t':
		return append(b, `\t`...)
	case '\n':
		return append(b, `\n`...)
	case '\f':
		return append(b, `\f`...)
	case '\r':
		return append(b, `\r`...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendNumber writes f as ECMAScript does: the shortest digits that give f back, and an exponent below 1e-6 and from 1e21
// on.
func appendNumber(b []byte, f float64) []byte {
	size := math.Abs(f)
	if size != 0 && (size < 1e-6 || size >= 1e21) {
		b = strconv.AppendFloat(b, f, 'e', -1, 64)
		if n := len(b); n >= 4 && b[n-4] == 'e' && b[n-2] == '0' { // e-09 is written e-9
			b[n-2] = b[n-1]
			b = b[:n-1]
		}
		return b
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}
