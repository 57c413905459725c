package filter

import (
	"slices"
	"strings"
	"unicode"
)

// Bounds of a filter.
const (
	MaxLength = 8192 // bytes of the text
	MaxTerms  = 32
	MaxValues = 100 // of one term
	MaxValue  = 512 // bytes of a value, or of a path
)

// Field is a field that a filter may name.
type Field struct {
	Name   string
	Nested bool // takes a path after a dot, such as meta.tenant
	Prefix bool // its values may end in *
}

// Term is a condition on one field: that it has one of the values.
type Term struct {
	Field  string
	Path   string // what follows the field's name and a dot; "" for a field that is not nested
	Values []Value
	Pos    int // of the field's name in the text, in characters from 1; 0 for a term that was not parsed
}

// Name returns the field as a filter names it, with its path.
func (t Term) Name() string {
	if t.Path == "" {
		return t.Field
	}
	return t.Field + "." + t.Path
}

// Matches reports whether one of the values matches text.
func (t Term) Matches(text string) bool {
	return slices.ContainsFunc(t.Values, func(v Value) bool { return v.Matches(text) })
}

// Value is a text, or what a text begins with.
type Value struct {
	Text   string
	Prefix bool
}

// Matches reports whether text is the value or, for a prefix, begins with it.
func (v Value) Matches(text string) bool {
	if v.Prefix {
		return strings.HasPrefix(text, v.Text)
	}
	return text == v.Text
}

// Exactly returns the values that match these texts and no others.
func Exactly(texts ...string) []Value {
	values := make([]Value, len(texts))
	for i, text := range texts {
		values[i].Text = text
	}
	return values
}

// Terms are the conditions of a filter. All of them hold.
type Terms []Term

// String returns the filter in the form that Parse reads.
func (t Terms) String() string {
	var b strings.Builder
	for i, term := range t {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(term.Name())
		for i, v := range term.Values {
			b.WriteByte(":,"[min(i, 1)])
			v.write(&b)
		}
	}
	return b.String()
}

func (v Value) write(b *strings.Builder) {
	star := ""
	if v.Prefix {
		star = "*"
	}
	if v.Text != "" && !strings.ContainsFunc(v.Text, special) {
		b.WriteString(v.Text + star)
		return
	}
	b.WriteString(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `*`, `\*`).Replace(v.Text) + star + `"`)
}

// special reports whether a value with this character stands in quotes.
func special(r rune) bool {
	return unicode.IsSpace(r) || strings.ContainsRune(`,"\*`, r)
}
