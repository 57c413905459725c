package file

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// maxDepth bounds the nesting of values, and so the stack.
const maxDepth = 1000

// identify checks that a line is one JSON value, and returns the "id" member of an object: a string that is not empty, or
// the digits of a number unchanged. Any other line has the ID "". As in encoding/json the last of several members counts.
func identify(line []byte) (string, error) {
	s, err := scan(line)
	if err != nil || s.idFrom < 0 {
		return "", err
	}
	return text(line[s.idFrom:s.idTo]), nil
}

// check checks that a text is one JSON value.
func check(raw []byte) error {
	_, err := scan(raw)
	return err
}

func scan(line []byte) (scanner, error) {
	s := scanner{b: line, idFrom: -1}
	if !utf8.Valid(line) {
		return s, errUTF8
	}
	s.space()
	if !s.value(0) {
		return s, fmt.Errorf("not JSON at column %d", s.i+1)
	}
	if s.space(); s.i < len(line) {
		return s, fmt.Errorf("not JSON at column %d: more follows the value", s.i+1)
	}
	return s, nil
}

// text decodes an ID from JSON.
func text(raw []byte) string {
	switch c := raw[0]; {
	case c == '"':
		inner := raw[1 : len(raw)-1]
		for _, c := range inner {
			if c == '\\' {
				var id string
				_ = json.Unmarshal(raw, &id) // it has been checked
				return id
			}
		}
		return string(inner)
	case c == '-' || c >= '0' && c <= '9':
		return string(raw)
	}
	return ""
}

// scanner checks a JSON text in one pass, without an allocation. i is its position; after a failure, the position of that.
type scanner struct {
	b            []byte
	i            int
	idFrom, idTo int // of the last "id" of the outermost object
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

// is reports whether c comes next, and skips it.
func (s *scanner) is(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) value(depth int) bool {
	if s.i >= len(s.b) || depth > maxDepth {
		return false
	}
	switch s.b[s.i] {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		return s.str()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

func (s *scanner) object(depth int) bool {
	s.i++
	if s.space(); s.is('}') {
		return true
	}
	for {
		s.space()
		from := s.i
		if !s.str() {
			return false
		}
		isID := depth == 0 && string(s.b[from:s.i]) == `"id"`
		if s.space(); !s.is(':') {
			return false
		}
		s.space()
		from = s.i
		if !s.value(depth + 1) {
			return false
		}
		if isID {
			s.idFrom, s.idTo = from, s.i
		}
		if s.space(); s.is('}') {
			return true
		}
		if !s.is(',') {
			return false
		}
	}
}

func (s *scanner) array(depth int) bool {
	s.i++
	if s.space(); s.is(']') {
		return true
	}
	for {
		s.space()
		if !s.value(depth + 1) {
			return false
		}
		if s.space(); s.is(']') {
			return true
		}
		if !s.is(',') {
			return false
		}
	}
}

func (s *scanner) str() bool {
	if !s.is('"') {
		return false
	}
	b := s.b
	for i := s.i; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return true
		case c < 0x20:
			s.i = i
			return false
		case c == '\\':
			if i++; i >= len(b) {
				break
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; i >= len(b) || !isHex(b[i]) {
						s.i = min(i, len(b))
						return false
					}
				}
			default:
				s.i = i
				return false
			}
		}
	}
	s.i = len(b)
	return false
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func (s *scanner) word(w string) bool {
	for i := range len(w) {
		if !s.is(w[i]) {
			return false
		}
	}
	return true
}

func (s *scanner) number() bool {
	s.is('-')
	if !s.is('0') && !s.digits() {
		return false
	}
	if s.is('.') && !s.digits() {
		return false
	}
	if s.is('e') || s.is('E') {
		if !s.is('+') {
			s.is('-')
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > from
}
