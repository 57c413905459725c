package filter

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tenetdev/tenet/internal/near"
)

// Error is a fault of a filter's text.
type Error struct {
	Pos     int    // in characters from 1
	Problem string // with its remedy
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("filter: character %d: %s", e.Pos, e.Problem) }

// Parse reads a filter. An empty text has no terms. Each field may be named once, nested ones once for each path. Errors are
// of type *Error.
func Parse(text string, fields []Field) (Terms, error) {
	p := parser{text: text, fields: fields}
	if len(text) > MaxLength {
		return nil, p.fail(0, "the filter has %d bytes, above the limit of %d", len(text), MaxLength)
	}
	if !utf8.ValidString(text) {
		return nil, p.fail(0, "the filter is not valid UTF-8")
	}
	if at := strings.IndexByte(text, 0); at >= 0 {
		return nil, p.fail(at, "a NUL character")
	}
	var terms Terms
	named := map[string]bool{}
	for p.space(); p.at < len(text); p.space() {
		start := p.at
		t, err := p.term()
		if err != nil {
			return nil, err
		}
		if named[t.Name()] {
			return nil, p.fail(start, "%s is named twice; separate alternatives by commas, as in state:dead,cancelled", t.Name())
		}
		if len(terms) == MaxTerms {
			return nil, p.fail(start, "more than %d terms", MaxTerms)
		}
		named[t.Name()] = true
		terms = append(terms, t)
	}
	return terms, nil
}

// parser reads a text from left to right.
type parser struct {
	text   string
	at     int // in bytes
	fields []Field
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &Error{Pos: p.column(at), Problem: fmt.Sprintf(format, args...)}
}

// column is the position of a byte in characters from 1.
func (p *parser) column(at int) int { return utf8.RuneCountInString(p.text[:at]) + 1 }

func (p *parser) space() {
	p.at = len(p.text) - len(strings.TrimLeftFunc(p.text[p.at:], unicode.IsSpace))
}

// term reads one term.
func (p *parser) term() (Term, error) {
	start := p.at
	length := strings.IndexFunc(p.text[start:], func(r rune) bool { return r == ':' || r == '"' || r == ',' || unicode.IsSpace(r) })
	if length < 0 {
		length = len(p.text) - start
	}
	name := p.text[start : start+length]
	p.at += length
	if p.at == len(p.text) || p.text[p.at] != ':' {
		return Term{}, p.bare(start, name)
	}
	p.at++
	field, t, err := p.field(start, name)
	if err != nil {
		return t, err
	}
	for {
		v, err := p.value(t.Name(), field.Prefix)
		if err != nil {
			return t, err
		}
		if len(t.Values) == MaxValues {
			return t, p.fail(start, "%s has more than %d values", t.Name(), MaxValues)
		}
		t.Values = append(t.Values, v)
		if p.at == len(p.text) || p.text[p.at] != ',' {
			return t, nil
		}
		p.at++
	}
}

// bare returns the error for a word without a colon.
func (p *parser) bare(start int, word string) error {
	switch strings.ToLower(word) {
	case "and":
		return p.fail(start, "leave out %s: all terms hold anyway", word)
	case "or", "not":
		return p.fail(start, "there is no %s; alternatives of one field are separated by commas, as in state:dead,cancelled", word)
	case "":
		return p.fail(start, "a term begins with the name of a field and a colon, as in state:dead")
	}
	if name, value, ok := strings.Cut(word, "="); ok {
		if _, _, err := p.field(start, name); err == nil {
			return p.fail(start, "a colon stands between a field and its value; write %s:%s", clipped(name), clipped(value))
		}
	}
	return p.fail(start, "%q names no field; write error:%[1]s for jobs whose last error contains it", clipped(word))
}

// field looks up the field of a term.
func (p *parser) field(start int, name string) (Field, Term, error) {
	if strings.HasPrefix(name, "-") || strings.HasPrefix(name, "!") {
		return Field{}, Term{}, p.fail(start, "there is no negation; list the values that you want, as in state:ready,running")
	}
	first, path, dotted := strings.Cut(name, ".")
	var names []string
	for _, f := range p.fields {
		names = append(names, f.Name)
		switch {
		case f.Name != first:
		case f.Nested && (path == "" || strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".") || strings.Contains(path, "..")):
			return f, Term{}, p.fail(start, "%s takes a name after a dot, as in %[1]s.order:42", first)
		case f.Nested && len(path) > MaxValue:
			return f, Term{}, p.fail(start, "the name after %s. has %d bytes, above the limit of %d", first, len(path), MaxValue)
		case dotted && !f.Nested:
			return f, Term{}, p.fail(start, "%s takes no name after a dot; write %[1]s:", first)
		default:
			return f, Term{Field: first, Path: path, Pos: p.column(start)}, nil
		}
	}
	if match := near.Name(first, names); match != "" {
		return Field{}, Term{}, p.fail(start, "unknown field %q; did you mean %s?", clipped(first), match)
	}
	return Field{}, Term{}, p.fail(start, "unknown field %q; the fields are %s", clipped(first), strings.Join(names, ", "))
}

// value reads a value, and leaves the position behind it.
func (p *parser) value(name string, prefix bool) (v Value, err error) {
	start := p.at
	if v, err = p.literal(name); err != nil {
		return v, err
	}
	switch {
	case v.Text == "":
		return v, p.fail(start, "%s has no value", name)
	case v.Prefix && !prefix:
		return v, p.fail(start, `%s takes whole values, without *; for the character, write "\*"`, name)
	case len(v.Text) > MaxValue:
		return v, p.fail(start, "the value of %s has %d bytes, above the limit of %d", name, len(v.Text), MaxValue)
	}
	return v, nil
}

// literal reads a value, quoted or not.
func (p *parser) literal(name string) (v Value, err error) {
	start := p.at
	quoted := strings.HasPrefix(p.text[p.at:], `"`)
	if quoted {
		p.at++
	}
	var b strings.Builder
	for p.at < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[p.at:])
		switch {
		case quoted && r == '"':
			p.at++
			if p.at < len(p.text) && p.text[p.at] != ',' && !unicode.IsSpace(p.next()) {
				return v, p.fail(p.at, "a quoted value ends the term; put white space or a comma behind it")
			}
			v.Text = b.String()
			return v, nil
		case !quoted && (r == ',' || unicode.IsSpace(r)):
			v.Text = b.String()
			return v, nil
		case v.Prefix:
			return v, p.fail(p.at, `a * stands at the end of a value; for the character, write "\*"`)
		case !quoted && r == '"':
			return v, p.fail(p.at, `put the whole value of %s in quotes, and write \" for a quote in it`, name)
		case r == '*':
			v.Prefix = true
		case quoted && r == '\\':
			p.at++
			if p.at == len(p.text) || !strings.ContainsRune(`"\*`, p.next()) {
				return v, p.fail(p.at-1, `in quotes, a backslash stands before ", \ or * only; write \\ for a backslash`)
			}
			b.WriteRune(p.next())
			size = 1
		default:
			b.WriteRune(r)
		}
		p.at += size
	}
	if quoted {
		return v, p.fail(start, "the quote is not closed")
	}
	v.Text = b.String()
	return v, nil
}

// next is the character at the position.
func (p *parser) next() rune {
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return r
}

// clipped shortens a word of the text for a message.
func clipped(word string) string {
	const most = 40
	if runes := []rune(word); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return word
}
