package audit

import (
	"bytes"
	"math"
	"strconv"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep values may be nested; events need six levels.
const maxDepth = 32

// lineReader reads the JSON of one line from left to right. Like canonical JSON, the line must not have whitespace between
// its parts. After the first error the reader is bad, and its methods return zero values.
type lineReader struct {
	line  []byte
	at    int
	depth int
	bad   bool
}

// fail marks the line as bad.
func (r *lineReader) fail() { r.bad, r.at = true, len(r.line) }

// peek returns the next byte, or 0 at the end.
func (r *lineReader) peek() byte {
	if r.at < len(r.line) {
		return r.line[r.at]
	}
	return 0
}

func (r *lineReader) expect(c byte) {
	if r.peek() != c {
		r.fail()
		return
	}
	r.at++
}

// open enters an object or a list.
func (r *lineReader) open(c byte) {
	r.expect(c)
	if r.depth++; r.depth > maxDepth {
		r.fail()
	}
}

// more reports whether another element follows. If not, it leaves the object or list.
func (r *lineReader) more(end byte, first *bool) bool {
	switch {
	case r.bad:
		return false
	case r.peek() == end:
		r.at++
		r.depth--
		return false
	case *first:
		*first = false
		return true
	}
	r.expect(',')
	return !r.bad
}

// name reads the name of a member and the colon after it.
func (r *lineReader) name() []byte {
	name, _ := r.raw()
	r.expect(':')
	return name
}

// raw reads a string as it is in the line; escaped reports whether it has escapes.
func (r *lineReader) raw() (s []byte, escaped bool) {
	r.expect('"')
	rest := r.line[r.at:]
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		r.fail()
		return nil, false
	}
	if bytes.IndexByte(rest[:end], '\\') < 0 {
		r.at += end + 1
		return rest[:end], false
	}
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			r.at += i + 1
			return rest[:i], true
		}
	}
	r.fail()
	return nil, false
}

// text reads a string. A string without escapes shares the line's memory.
func (r *lineReader) text() []byte {
	s, escaped := r.raw()
	if !escaped {
		return s
	}
	s, ok := unescape(s)
	if !ok {
		r.fail()
	}
	return s
}

func unescape(s []byte) ([]byte, bool) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		switch s[i] { // raw has checked that a byte follows
		case '"', '\\', '/':
			out = append(out, s[i])
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			if i+4 >= len(s) {
				return nil, false
			}
			code, err := strconv.ParseUint(string(s[i+1:i+5]), 16, 16)
			if err != nil {
				return nil, false
			}
			if utf16.IsSurrogate(rune(code)) { // canonical JSON escapes control characters only
				return nil, false
			}
			out = utf8.AppendRune(out, rune(code))
			i += 4
		default:
			return nil, false
		}
	}
	return out, true
}

// integer reads a whole number.
func (r *lineReader) integer() int64 {
	negative := r.peek() == '-'
	if negative {
		r.at++
	}
	n := r.unsigned()
	switch {
	case !negative && n <= math.MaxInt64:
		return int64(n)
	case negative && n <= math.MaxInt64+1:
		return -int64(n)
	}
	r.fail()
	return 0
}

// unsigned reads a whole number that is not negative. It refuses an exponent: numbers that canonical JSON writes with one are
// larger than any in an event.
func (r *lineReader) unsigned() (n uint64) {
	start := r.at
	for ; r.at < len(r.line) && r.line[r.at]-'0' <= 9; r.at++ {
		digit := uint64(r.line[r.at] - '0')
		if n > (math.MaxUint64-digit)/10 {
			r.fail()
			return 0
		}
		n = n*10 + digit
	}
	if r.at == start || r.peek() == '.' || r.peek() == 'e' {
		r.fail()
		return 0
	}
	return n
}

// nanos reads the JSON form of [Nanos].
func (r *lineReader) nanos() Nanos {
	if r.peek() != '"' {
		return Nanos(r.integer())
	}
	r.at++
	n := r.integer()
	r.expect('"')
	return Nanos(n)
}

// quoted reads a number in a string.
func (r *lineReader) quoted() uint64 {
	r.expect('"')
	n := r.unsigned()
	r.expect('"')
	return n
}

func (r *lineReader) boolean() bool {
	switch {
	case bytes.HasPrefix(r.line[r.at:], []byte("true")):
		r.at += 4
		return true
	case bytes.HasPrefix(r.line[r.at:], []byte("false")):
		r.at += 5
		return false
	}
	r.fail()
	return false
}

// time reads a time in RFC 3339.
func (r *lineReader) time() time.Time {
	t, err := time.Parse(time.RFC3339Nano, string(r.text()))
	if err != nil {
		r.fail()
	}
	return t
}

func (r *lineReader) float() float64 {
	start := r.at
	r.number()
	f, err := strconv.ParseFloat(string(r.line[start:r.at]), 64)
	if err != nil {
		r.fail()
	}
	return f
}

// value skips any value and returns it as it is in the line.
func (r *lineReader) value() []byte {
	start := r.at
	switch c := r.peek(); {
	case c == '"':
		r.raw()
	case c == '{':
		r.open('{')
		for first := true; r.more('}', &first); {
			r.name()
			r.value()
		}
	case c == '[':
		r.open('[')
		for first := true; r.more(']', &first); {
			r.value()
		}
	case c == 't' || c == 'f':
		r.boolean()
	case bytes.HasPrefix(r.line[r.at:], []byte("null")):
		r.at += 4
	default:
		r.number()
	}
	if r.bad {
		return nil
	}
	return r.line[start:r.at]
}

func (r *lineReader) number() {
	start := r.at
	for r.at < len(r.line) && (r.line[r.at]-'0' <= 9 || bytes.IndexByte([]byte("+-.e"), r.line[r.at]) >= 0) {
		r.at++
	}
	if r.at == start {
		r.fail()
	}
}

// members calls f for each member of the line's object; f must read the value. It reports whether the line is exactly one
// object with sorted, distinct names.
func (r *lineReader) members(f func(name []byte)) bool {
	var last []byte
	r.open('{')
	for first := true; r.more('}', &first); {
		name := r.name()
		if bytes.Compare(name, last) <= 0 {
			r.fail()
		}
		last = name
		if !r.bad {
			f(name)
		}
	}
	return r.complete()
}

// complete reports whether the line was read to its end without an error.
func (r *lineReader) complete() bool { return !r.bad && r.at == len(r.line) }
