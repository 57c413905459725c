package policyfile

import (
	"reflect"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
)

// Value is a field of a compiled policy and where its value was taken from.
type Value struct {
	// Field is the path inside the policy, for example retry.max_attempts.
	Field string `json:"field"`
	// Text is the value as documents write it.
	Text string `json:"text"`
	// Path is the place in the document. It is absent for a value that comes from Category's row of the catalog, or that is built in.
	Path string `json:"path,omitempty"`
	// Line is that of Path, and absent with it.
	Line int `json:"line,omitempty"`
	// Category is the one whose row of the catalog the value comes from.
	Category policy.Category `json:"category,omitempty"`
	// Clamped is set if the document's value was outside the limits.
	Clamped bool `json:"clamped,omitempty"`
}

// Values lists the fields of a policy of the document that have a value, in the order of their declaration. Hedging and breakers
// that are off are left out.
func (d *Document) Values(p *policy.Policy) []Value {
	clamped := map[string]bool{}
	for _, path := range p.Meta.Clamped {
		clamped[path] = true
	}
	row := map[string]string{}
	if r, ok := p.Category.Policy(); ok {
		fields.Each("", reflect.ValueOf(policy.Policy{Retry: r}), func(path string, v reflect.Value) { row[path] = fields.Text(v) })
	}
	var list []Value
	fields.Each("", reflect.ValueOf(*p), func(path string, v reflect.Value) {
		value := Value{Field: path, Text: fields.Text(v), Clamped: clamped[path]}
		value.Path, value.Line = d.Origin(p.Key, path)
		if value.Path == "" && row[path] == value.Text {
			value.Category = p.Category
		}
		list = append(list, value)
	})
	return list
}

// ValuesAt lists the fields of an object of the compiled document that have a value, such as a budget at "budgets.shared-api".
func (d *Document) ValuesAt(path string, object any) []Value {
	var list []Value
	fields.Each("", reflect.ValueOf(object), func(field string, v reflect.Value) {
		value := Value{Field: field, Text: fields.Text(v)}
		if line := d.Line(fields.Join(path, field)); line > 0 {
			value.Path, value.Line = shown(fields.Join(path, field)), line
		}
		list = append(list, value)
	})
	return list
}
