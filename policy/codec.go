package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/fields"
)

// ParseDuration parses a duration in the form of strings in documents ("250ms", "1h30m").
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as \"250ms\" or \"1.5s\"", s)
	}
	return d, nil
}

// Seconds converts a document's number of seconds, rounded to nanoseconds. It fails beyond ±292 years.
func Seconds(s float64) (time.Duration, error) {
	ns := math.Round(s * float64(time.Second))
	switch {
	case ns == math.MaxInt64: // the longest duration, which a float64 rounds up
		return math.MaxInt64, nil
	case math.IsNaN(ns), ns > math.MaxInt64, ns <= math.MinInt64:
		return 0, fmt.Errorf("%g seconds is out of range", s)
	}
	return time.Duration(ns), nil
}

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (p Policy) MarshalJSON() ([]byte, error) { return marshal(p) }

// UnmarshalJSON reads the output of MarshalJSON, as strictly as a document is read: an unknown field, a field given twice, a
// value outside its range and a null without a meaning are errors. It does not check names that code or a document supplies.
// It notes a deprecated field in Meta.Warnings and ignores one that was removed.
func (p *Policy) UnmarshalJSON(b []byte) error {
	warnings, err := unmarshal(b, p, fields.Deprecated())
	p.Meta.Warnings = append(p.Meta.Warnings, warnings...)
	return err
}

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (r Retry) MarshalJSON() ([]byte, error) { return marshal(r) }

// UnmarshalJSON is as strict as [Policy.UnmarshalJSON].
func (r *Retry) UnmarshalJSON(b []byte) error { return decode(b, r) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (h Hedge) MarshalJSON() ([]byte, error) { return marshal(h) }

// UnmarshalJSON is as strict as [Policy.UnmarshalJSON].
func (h *Hedge) UnmarshalJSON(b []byte) error { return decode(b, h) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (c Circuit) MarshalJSON() ([]byte, error) { return marshal(c) }

// UnmarshalJSON is as strict as [Policy.UnmarshalJSON].
func (c *Circuit) UnmarshalJSON(b []byte) error { return decode(b, c) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (l Limit) MarshalJSON() ([]byte, error) { return marshal(l) }

// UnmarshalJSON is as strict as [Policy.UnmarshalJSON].
func (l *Limit) UnmarshalJSON(b []byte) error { return decode(b, l) }

// MarshalJSON leaves absent fields out.
func (b Budget) MarshalJSON() ([]byte, error) { return marshal(b) }

// UnmarshalJSON is as strict as [Policy.UnmarshalJSON].
func (b *Budget) UnmarshalJSON(data []byte) error { return decode(data, b) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (j Job) MarshalJSON() ([]byte, error) { return marshal(j) }

// UnmarshalJSON is as strict as [Policy.UnmarshalJSON].
func (j *Job) UnmarshalJSON(b []byte) error { return decode(b, j) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (q Queue) MarshalJSON() ([]byte, error) { return marshal(q) }

// UnmarshalJSON is as strict as [Policy.UnmarshalJSON].
func (q *Queue) UnmarshalJSON(b []byte) error { return decode(b, q) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (l JobLimit) MarshalJSON() ([]byte, error) { return marshal(l) }

// UnmarshalJSON is as strict as [Policy.UnmarshalJSON].
func (l *JobLimit) UnmarshalJSON(b []byte) error { return decode(b, l) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (c Consumer) MarshalJSON() ([]byte, error) { return marshal(c) }

// UnmarshalJSON is as strict as [Policy.UnmarshalJSON].
func (c *Consumer) UnmarshalJSON(b []byte) error { return decode(b, c) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (p Producer) MarshalJSON() ([]byte, error) { return marshal(p) }

// UnmarshalJSON is as strict as [Policy.UnmarshalJSON].
func (p *Producer) UnmarshalJSON(b []byte) error { return decode(b, p) }

// MarshalJSON writes durations as seconds.
func (l Limits) MarshalJSON() ([]byte, error) { return marshal(l) }

func marshal(v any) ([]byte, error) { return json.Marshal(encode(reflect.ValueOf(v))) }

// encode turns a struct into a map of its present fields, and durations into seconds.
func encode(v reflect.Value) any {
	switch {
	case fields.IsDuration(v.Type()):
		return fields.Seconds(time.Duration(v.Int()))
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = encode(v.Index(i))
		}
		return list
	case v.Kind() != reflect.Struct:
		return v.Interface()
	}
	object := map[string]any{}
	for _, f := range fields.Of(v.Type()) {
		if field := v.Field(f.Index); !field.IsZero() && !emptyObject(field) {
			object[f.Name] = encode(field)
		}
	}
	return object
}

// emptyObject reports whether a struct has no present fields.
func emptyObject(v reflect.Value) bool {
	if v.Kind() == reflect.Slice {
		return v.Len() == 0
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	for _, f := range fields.Of(v.Type()) {
		if field := v.Field(f.Index); !field.IsZero() && !emptyObject(field) {
			return false
		}
	}
	return true
}

// decode is unmarshal for objects that do not keep warnings.
func decode(data []byte, into any) error {
	_, err := unmarshal(data, into, fields.Deprecated())
	return err
}

// unmarshal reads a whole object strictly. It returns a warning for each deprecated field.
func unmarshal(data []byte, into any, deprecated map[string]string) (warnings []string, err error) {
	if string(data) == "null" { // a no-op, as in encoding/json
		reflect.ValueOf(into).Elem().SetZero()
		return nil, nil
	}
	if err := givenTwice(data); err != nil {
		return nil, err
	}
	d := decoder{deprecated: deprecated}
	err = d.object("", data, reflect.ValueOf(into).Elem())
	return d.warnings, err
}

// givenTwice looks for an object with two fields of one name.
func givenTwice(data []byte) error {
	if !json.Valid(data) {
		return errors.New("policy: invalid JSON")
	}
	tokens := json.NewDecoder(bytes.NewReader(data))
	next := func() json.Token {
		t, _ := tokens.Token() // the whole is valid
		return t
	}
	var walk func(path string) error
	walk = func(path string) error {
		opened, nested := next().(json.Delim)
		names := map[string]bool{}
		for nested && tokens.More() {
			where := path
			if opened == '{' {
				name, _ := next().(string)
				where = fields.Join(path, name)
				if names[name] {
					return fmt.Errorf("policy: %s: given twice; keep one of the two", where)
				}
				names[name] = true
			}
			if err := walk(where); err != nil {
				return err
			}
		}
		if nested {
			next() // the closing bracket
		}
		return nil
	}
	return walk("")
}

// decoder reads objects into the fields of structs.
type decoder struct {
	deprecated map[string]string // see fields.Deprecated
	warnings   []string
}

func (d *decoder) object(path string, data []byte, v reflect.Value) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("policy: %s: %w", path, err)
	}
	for _, f := range fields.Of(v.Type()) {
		raw, present := object[f.Name]
		if !present {
			continue
		}
		if err := d.field(fields.Join(path, f.Name), f, raw, v.Field(f.Index)); err != nil {
			return err
		}
	}
	if q, ok := v.Addr().Interface().(settler); ok {
		q.settle(object)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		known := slices.ContainsFunc(fields.Of(v.Type()), func(f fields.Field) bool { return f.Name == name })
		remedy, deprecated := d.deprecated[v.Type().Name()+"."+name]
		if deprecated {
			d.warnings = append(d.warnings, fields.Join(path, name)+": deprecated; "+remedy)
		}
		if !known && !deprecated {
			return fmt.Errorf("policy: %s: unknown field", fields.Join(path, name))
		}
	}
	return nil
}

// settler is an object some of whose values mean what Go's zero cannot carry. It gives them their meaning, as package policyfile
// does.
type settler interface {
	settle(given map[string]json.RawMessage)
}

// settle notes an explicit lack of a timeout, which the category must not fill.
func (p *Policy) settle(given map[string]json.RawMessage) {
	var retry map[string]json.RawMessage
	_ = json.Unmarshal(given["retry"], &retry) // read before, or absent
	if timeout := retry["timeout"]; timeout != nil && isNone(timeout) {
		p.Meta.None = []string{"retry.timeout"}
	}
}

func (r *Retry) settle(given map[string]json.RawMessage) {
	if pushback := given["max_pushback"]; pushback != nil && isNone(pushback) {
		r.MaxPushback = Unbounded
	}
	if given["jitter_factor"] != nil && r.JitterFactor == 0 && r.Jitter == JitterProportional {
		r.Jitter = JitterNone
	}
}

func (q *EmptyQueue) settle(given map[string]json.RawMessage) {
	if given["backoff"] != nil && q.Backoff == 0 {
		q.Backoff = MinEmptyBackoff
	}
	if given["backoff_cap"] != nil && q.BackoffCap == 0 {
		q.BackoffCap = Unbounded
	}
}

func (d *decoder) field(path string, f fields.Field, data []byte, v reflect.Value) error {
	fail := func(problem, remedy string) error {
		return fmt.Errorf("policy: %s: %s; %s", path, problem, remedy)
	}
	switch {
	case f.Rule.Reserved:
		return fail(f.Rule.Check(0))
	case f.Rule.Null && isNone(data):
		v.SetZero()
		return nil
	case string(data) == "null":
		return fail("null is not accepted", "write a value, or leave the field out")
	case v.Kind() == reflect.Struct:
		return d.object(path, data, v)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		return d.list(path, data, v)
	}
	var number float64
	var err error
	switch v.Kind() {
	case reflect.Int64: // a duration
		var duration time.Duration
		duration, err = decodeDuration(data)
		number = fields.Seconds(duration)
		v.SetInt(int64(duration))
	case reflect.Int, reflect.Float64:
		if err = json.Unmarshal(data, &number); err != nil {
			break
		}
		if v.Kind() == reflect.Float64 {
			v.SetFloat(number)
			break
		}
		if number != math.Trunc(number) {
			return fail(string(data)+" is not an integer", "write an integer")
		}
		v.SetInt(int64(min(max(number, math.MinInt32), math.MaxInt32)))
	default:
		if err = json.Unmarshal(data, v.Addr().Interface()); err != nil {
			break
		}
		return d.text(path, f, v)
	}
	if err != nil {
		return fmt.Errorf("policy: %s: %w", path, err)
	}
	if problem, remedy := f.Rule.Check(number); problem != "" {
		return fail(string(data)+" "+problem, remedy)
	}
	return nil
}

// list reads a list of objects.
func (d *decoder) list(path string, data []byte, v reflect.Value) error {
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		return fmt.Errorf("policy: %s: %w", path, err)
	}
	list := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if err := d.object(fmt.Sprintf("%s[%d]", path, i), item, list.Index(i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

// text checks an enum's value and names. A category may be one that the catalog does not hold yet.
func (d *decoder) text(path string, f fields.Field, v reflect.Value) error {
	var names []string
	switch x := v.Interface().(type) {
	case Category:
	case interface{ Values() []string }:
		if !slices.Contains(x.Values(), v.String()) {
			return fmt.Errorf("policy: %s: unknown value %q; write one of %s", path, v.String(), strings.Join(x.Values(), ", "))
		}
	case string:
		if f.Kind != "" {
			names = []string{x}
		}
	case []string:
		names = x
	case []Class:
		for _, c := range x {
			names = append(names, string(c))
		}
	}
	for _, name := range names {
		if problem := fields.BadName(name); problem != "" {
			return fmt.Errorf("policy: %s: %s; write a plain name", path, problem)
		}
	}
	return nil
}

// isNone reports null and the two strings that stand for it.
func isNone(data []byte) bool {
	var text *string
	return json.Unmarshal(data, &text) == nil && (text == nil || *text == "" || *text == "none")
}

func decodeDuration(data []byte) (time.Duration, error) {
	var text string
	if json.Unmarshal(data, &text) == nil && fields.DurationForm(text) {
		return ParseDuration(text)
	}
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return 0, fmt.Errorf("%s is neither seconds nor a duration such as \"250ms\"", data)
	}
	return Seconds(seconds)
}
