package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/tenetdev/tenet/internal/fields"
)

// ParseDuration reads a duration as documents write it in strings ("250ms", "1h30m").
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
	case ns == math.MaxInt64: // how the longest duration is written: a float64 rounds it up
		return math.MaxInt64, nil
	case math.IsNaN(ns), ns > math.MaxInt64, ns <= math.MinInt64:
		return 0, fmt.Errorf("%g seconds is out of range", s)
	}
	return time.Duration(ns), nil
}

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (p Policy) MarshalJSON() ([]byte, error) { return marshal(p) }

// UnmarshalJSON reads what MarshalJSON writes; an unknown field is an error.
func (p *Policy) UnmarshalJSON(b []byte) error { return unmarshal(b, p) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (r Retry) MarshalJSON() ([]byte, error) { return marshal(r) }

// UnmarshalJSON reads what MarshalJSON writes; an unknown field is an error.
func (r *Retry) UnmarshalJSON(b []byte) error { return unmarshal(b, r) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (h Hedge) MarshalJSON() ([]byte, error) { return marshal(h) }

// UnmarshalJSON reads what MarshalJSON writes; an unknown field is an error.
func (h *Hedge) UnmarshalJSON(b []byte) error { return unmarshal(b, h) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (c Circuit) MarshalJSON() ([]byte, error) { return marshal(c) }

// UnmarshalJSON reads what MarshalJSON writes; an unknown field is an error.
func (c *Circuit) UnmarshalJSON(b []byte) error { return unmarshal(b, c) }

// MarshalJSON leaves absent fields out.
func (b Budget) MarshalJSON() ([]byte, error) { return marshal(b) }

// UnmarshalJSON reads what MarshalJSON writes; an unknown field is an error.
func (b *Budget) UnmarshalJSON(data []byte) error { return unmarshal(data, b) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (j Job) MarshalJSON() ([]byte, error) { return marshal(j) }

// UnmarshalJSON reads what MarshalJSON writes; an unknown field is an error.
func (j *Job) UnmarshalJSON(b []byte) error { return unmarshal(b, j) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (q Queue) MarshalJSON() ([]byte, error) { return marshal(q) }

// UnmarshalJSON reads what MarshalJSON writes; an unknown field is an error.
func (q *Queue) UnmarshalJSON(b []byte) error { return unmarshal(b, q) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (c Consumer) MarshalJSON() ([]byte, error) { return marshal(c) }

// UnmarshalJSON reads what MarshalJSON writes; an unknown field is an error.
func (c *Consumer) UnmarshalJSON(b []byte) error { return unmarshal(b, c) }

// MarshalJSON writes durations as seconds and leaves absent fields out.
func (p Producer) MarshalJSON() ([]byte, error) { return marshal(p) }

// UnmarshalJSON reads what MarshalJSON writes; an unknown field is an error.
func (p *Producer) UnmarshalJSON(b []byte) error { return unmarshal(b, p) }

// MarshalJSON writes durations as seconds.
func (l Limits) MarshalJSON() ([]byte, error) { return marshal(l) }

func marshal(v any) ([]byte, error) { return json.Marshal(encode(reflect.ValueOf(v))) }

// encode turns a struct into a map of its present fields, and durations into seconds.
func encode(v reflect.Value) any {
	switch {
	case fields.IsDuration(v.Type()):
		return time.Duration(v.Int()).Seconds()
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

// emptyObject reports whether a struct has nothing that would be written.
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

func unmarshal(data []byte, into any) error {
	return decode("", data, reflect.ValueOf(into).Elem())
}

func decode(path string, data []byte, v reflect.Value) error {
	switch {
	case string(data) == "null":
		v.SetZero()
		return nil
	case fields.IsDuration(v.Type()):
		d, err := decodeDuration(data)
		if err != nil {
			return fmt.Errorf("policy: %s: %w", path, err)
		}
		v.SetInt(int64(d))
		return nil
	case v.Kind() != reflect.Struct:
		if err := json.Unmarshal(data, v.Addr().Interface()); err != nil {
			return fmt.Errorf("policy: %s: %w", path, err)
		}
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("policy: %s: %w", path, err)
	}
	for _, f := range fields.Of(v.Type()) {
		raw, present := object[f.Name]
		delete(object, f.Name)
		if !present {
			continue
		}
		if err := decode(strings.TrimPrefix(path+"."+f.Name, "."), raw, v.Field(f.Index)); err != nil {
			return err
		}
	}
	for name := range object {
		return fmt.Errorf("policy: %s: unknown field", strings.TrimPrefix(path+"."+name, "."))
	}
	return nil
}

func decodeDuration(data []byte) (time.Duration, error) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return ParseDuration(text)
	}
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return 0, fmt.Errorf("%s is neither seconds nor a duration such as \"250ms\"", data)
	}
	return Seconds(seconds)
}
