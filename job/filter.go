package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tenetdev/tenet/filter"
	"github.com/tenetdev/tenet/internal/lists"
)

// Filter selects jobs. Empty fields select all.
type Filter struct {
	IDs           []string
	Queue         string
	Type          string
	States        []State
	ErrorContains string
	CreatedBefore time.Time
	CreatedAfter  time.Time
	// Terms narrow the selection further; each of them holds. They are those that ParseFilter leaves: FieldQueue, FieldType,
	// FieldKey, FieldError, FieldCause, FieldFlow, FieldMeta and FieldPayload.
	Terms filter.Terms
}

// The fields of Filter.Terms. The values of queue, type and key may be prefixes.
const (
	FieldQueue = "queue"
	FieldType  = "type"
	FieldKey   = "key"   // the unique key
	FieldError = "error" // a part of the last error
	FieldCause = "cause" // of a dead job, as CauseOf returns it
	FieldFlow  = "flow"  // the ID of its flow
	// FieldMeta is a value of the job's metadata. The term's path is its name.
	FieldMeta = "meta"
	// FieldPayload is a string, number or boolean in a JSON payload. The term's path is the names of the objects on the way and
	// of the value itself, separated by dots; elements of arrays and names that contain a dot cannot be reached. A number is
	// compared as the payload writes it.
	FieldPayload = "payload"
)

// FilterFields returns the fields of the grammar that ParseFilter reads.
func FilterFields() []filter.Field {
	return []filter.Field{
		{Name: "id"}, {Name: "state"}, {Name: FieldQueue, Prefix: true}, {Name: FieldType, Prefix: true}, {Name: FieldKey, Prefix: true}, {Name: FieldError}, {Name: FieldCause}, {Name: FieldFlow},
		{Name: FieldMeta, Nested: true}, {Name: FieldPayload, Nested: true}, {Name: "before"}, {Name: "after"},
	}
}

// ParseFilter reads a filter such as
//
//	state:dead queue:mail type:"mail:*" error:timeout meta.tenant:acme payload.order.id:42 before:2h
//
// whose grammar is that of package filter. The fields are id, state, those of Filter.Terms, and before and after, which take
// a time in RFC 3339, a date, or how long ago the job was created relative to now. Errors are of type *filter.Error.
func ParseFilter(text string, now time.Time) (f Filter, err error) {
	terms, err := filter.Parse(text, FilterFields())
	if err != nil {
		return f, err
	}
	for _, t := range terms {
		problem := ""
		switch t.Field {
		case "id":
			for _, v := range t.Values {
				f.IDs = append(f.IDs, v.Text)
			}
		case "state":
			f.States, problem = parseStates(t.Values)
		case "before":
			f.CreatedBefore, problem = parseMoment(t, now)
		case "after":
			f.CreatedAfter, problem = parseMoment(t, now)
		default:
			problem = checkTerm(t)
			f.Terms = append(f.Terms, t)
		}
		if problem != "" {
			return Filter{}, &filter.Error{Pos: t.Pos, Problem: problem}
		}
	}
	return f, nil
}

func parseStates(values []filter.Value) (states []State, problem string) {
	for _, v := range values {
		state, err := ParseState(v.Text)
		if err != nil {
			return nil, err.Error()
		}
		states = append(states, state)
	}
	return states, ""
}

func parseMoment(t filter.Term, now time.Time) (at time.Time, problem string) {
	text := t.Values[0].Text
	if len(t.Values) > 1 {
		return at, t.Field + " takes one time"
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), ""
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, ""
		}
	}
	return at, fmt.Sprintf("%s:%s: write a time such as 2026-03-02T08:00:00Z, a date, or a duration such as 24h", t.Field, text)
}

// Check returns an error of type *filter.Error for a field or term that no job could match or no store could look up. Stores
// check the filters that they are given.
func (f *Filter) Check() error {
	if slices.Contains(f.IDs, "") {
		return &filter.Error{Pos: 1, Problem: "an ID is empty"}
	}
	for _, text := range slices.Concat([]string{f.Queue, f.Type, f.ErrorContains}, f.IDs) {
		if problem := textProblem(text, len(text)); problem != "" {
			return &filter.Error{Pos: 1, Problem: fmt.Sprintf("%q: %s", text, problem)}
		}
	}
	for _, t := range f.Terms {
		if problem := checkTerm(t); problem != "" {
			return &filter.Error{Pos: max(t.Pos, 1), Problem: problem}
		}
	}
	return nil
}

func checkTerm(t filter.Term) (problem string) {
	at := slices.IndexFunc(FilterFields(), func(f filter.Field) bool { return f.Name == t.Field })
	unfit := func(r rune) bool { return unicode.IsControl(r) || r == '"' || r == '\\' }
	switch {
	case at < 0 || slices.Contains([]string{"id", "state", "before", "after"}, t.Field):
		return fmt.Sprintf("%q is not a field of terms", t.Field)
	case (t.Path != "") != FilterFields()[at].Nested:
		return t.Field + ": a name after a dot is missing, or not allowed"
	case !utf8.ValidString(t.Path) || strings.ContainsFunc(t.Path, unfit):
		return fmt.Sprintf("%s: names with quotes, backslashes or control characters cannot be searched", t.Name())
	case len(t.Values) == 0:
		return t.Name() + " has no value"
	}
	for _, v := range t.Values {
		switch {
		case v.Text == "":
			return t.Name() + " has no value"
		case len(v.Text) > filter.MaxValue || !utf8.ValidString(v.Text) || strings.ContainsRune(v.Text, 0):
			return fmt.Sprintf("%s: a value has more than %d bytes, is not valid UTF-8 or contains NUL", t.Name(), filter.MaxValue)
		case v.Prefix && !FilterFields()[at].Prefix:
			return t.Name() + " takes whole values, without *"
		}
	}
	return ""
}

// String returns the filter in the form that ParseFilter reads, with times in RFC 3339.
func (f *Filter) String() string {
	var terms filter.Terms
	add := func(field string, texts ...string) {
		if len(texts) > 0 && texts[0] != "" {
			terms = append(terms, filter.Term{Field: field, Values: filter.Exactly(texts...)})
		}
	}
	add("id", f.IDs...)
	add("state", lists.Texts(f.States)...)
	add(FieldQueue, f.Queue)
	add(FieldType, f.Type)
	add(FieldError, f.ErrorContains)
	if !f.CreatedBefore.IsZero() {
		add("before", f.CreatedBefore.UTC().Format(time.RFC3339Nano))
	}
	if !f.CreatedAfter.IsZero() {
		add("after", f.CreatedAfter.UTC().Format(time.RFC3339Nano))
	}
	return append(terms, f.Terms...).String()
}

// Matches reports whether a job is selected.
func (f *Filter) Matches(r *Record) bool {
	return (len(f.IDs) == 0 || slices.Contains(f.IDs, r.ID)) && (f.Queue == "" || f.Queue == r.Queue) && (f.Type == "" || f.Type == r.Type) &&
		(len(f.States) == 0 || slices.Contains(f.States, r.State)) && strings.Contains(r.LastError, f.ErrorContains) &&
		(f.CreatedBefore.IsZero() || r.CreatedAt.Before(f.CreatedBefore)) && (f.CreatedAfter.IsZero() || r.CreatedAt.After(f.CreatedAfter)) &&
		!slices.ContainsFunc(f.Terms, func(t filter.Term) bool { return !holds(t, r) })
}

// holds reports whether a term is true of a job.
func holds(t filter.Term, r *Record) bool {
	switch t.Field {
	case FieldQueue:
		return t.Matches(r.Queue)
	case FieldType:
		return t.Matches(r.Type)
	case FieldKey:
		return t.Matches(r.UniqueKey)
	case FieldError:
		return slices.ContainsFunc(t.Values, func(v filter.Value) bool { return strings.Contains(r.LastError, v.Text) })
	case FieldCause:
		return t.Matches(r.Cause)
	case FieldFlow:
		return t.Matches(r.Flow)
	case FieldMeta:
		return t.Matches(r.Meta[t.Path])
	case FieldPayload:
		return t.Matches(payloadText(r.Payload, t.Path))
	}
	return false
}

// payloadText is the text of a string, number or boolean in a payload; empty if there is none.
func payloadText(payload []byte, path string) (text string) {
	if !utf8.Valid(payload) {
		return ""
	}
	raw := json.RawMessage(payload)
	for name := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			return ""
		}
		raw = object[name]
	}
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || strings.IndexByte("{[n", raw[0]) >= 0:
		return ""
	case raw[0] == '"':
		_ = json.Unmarshal(raw, &text) // it is valid: the object was
		return text
	}
	return string(raw)
}
