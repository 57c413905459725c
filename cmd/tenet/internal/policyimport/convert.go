package policyimport

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/policy"
)

// Converted is the result of a conversion.
type Converted struct {
	// Policies by their keys in documents.
	Policies map[string]policy.Policy
	// Defaults apply to calls without a policy. Zero if the input has no such entry.
	Defaults policy.Policy
	Budgets  map[string]policy.Budget
	// Report lists the fields that were approximated or left out, in the order of the input.
	Report []Note
}

// Note is a remark about one field of the input, or about the whole if the path is empty.
type Note struct {
	Path    string
	Message string
}

// String returns "path: message".
func (n Note) String() string {
	if n.Path == "" {
		return n.Message
	}
	return n.Path + ": " + n.Message
}

const maxInput = 4 << 20

// reader collects notes and faults of an input.
type reader struct {
	notes  []Note
	faults []Note
}

func (r *reader) note(path, format string, args ...any) {
	n := Note{path, fmt.Sprintf(format, args...)}
	if !slices.Contains(r.notes, n) {
		r.notes = append(r.notes, n)
	}
}

// fault reports a field once: a field that could not be read is not reported as missing too.
func (r *reader) fault(path, format string, args ...any) {
	if !slices.ContainsFunc(r.faults, func(n Note) bool { return n.Path == path }) {
		r.faults = append(r.faults, Note{path, fmt.Sprintf(format, args...)})
	}
}

func (r *reader) err(what string) error {
	if len(r.faults) == 0 {
		return nil
	}
	lines := make([]string, len(r.faults))
	for i, n := range r.faults {
		lines[i] = n.String()
	}
	return fmt.Errorf("%s: %s", what, strings.Join(lines, "; "))
}

// load reads a JSON or YAML object.
func (r *reader) load(data []byte) (object, error) {
	if len(data) > maxInput {
		return object{}, fmt.Errorf("%d bytes are too many; at most %d are read", len(data), maxInput)
	}
	var root any
	if err := yaml.Load(data, &root, yaml.WithV4Defaults()); err != nil {
		return object{}, fmt.Errorf("neither JSON nor YAML: %w", err)
	}
	fields, ok := root.(map[string]any)
	if !ok {
		return object{}, fmt.Errorf("the input is %s; an object is required", kind(root))
	}
	return object{r, "", fields}, nil
}

// object is a JSON object that is being read. Reading a field removes it.
type object struct {
	r      *reader
	path   string
	fields map[string]any
}

// at returns the path of a field.
func (o object) at(name string) string { return join(o.path, name) }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// take removes a field and returns it. name has the spelling of the system's documentation; the other one is accepted too.
func (o object) take(name string) (value any, path string) {
	for _, spelling := range []string{name, snake(name), camel(name)} {
		if v, ok := o.fields[spelling]; ok {
			delete(o.fields, spelling)
			return v, o.at(spelling) // a null is an absent value
		}
	}
	return nil, o.at(name)
}

func snake(name string) string {
	return capital.ReplaceAllStringFunc(name, func(s string) string { return "_" + strings.ToLower(s) })
}

func camel(name string) string {
	return underscored.ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(s[1:]) })
}

var (
	capital     = regexp.MustCompile(`[A-Z]`)
	underscored = regexp.MustCompile(`_[a-z0-9]`)
	seconds     = regexp.MustCompile(`^-?[0-9]+(\.[0-9]{1,9})?s$`)
)

// object reads a field that is an object.
func (o object) object(name string) (object, bool) {
	v, path := o.take(name)
	return o.r.object(v, path)
}

func (r *reader) object(v any, path string) (object, bool) {
	if v == nil {
		return object{}, false
	}
	fields, ok := v.(map[string]any)
	if !ok {
		r.fault(path, "is %s, not an object", kind(v))
	}
	return object{r, path, fields}, ok
}

// list reads a field that is a list.
func (o object) list(name string) (items []any, path string) {
	v, path := o.take(name)
	if v == nil {
		return nil, path
	}
	items, ok := v.([]any)
	if !ok {
		o.r.fault(path, "is %s, not a list", kind(v))
	}
	return items, path
}

// objects reads a field that is a list of objects.
func (o object) objects(name string) []object {
	items, path := o.list(name)
	var list []object
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if item == nil {
			o.r.fault(at, "is null, not an object")
		}
		if child, ok := o.r.object(item, at); ok {
			list = append(list, child)
		}
	}
	return list
}

func (o object) text(name string) string {
	v, path := o.take(name)
	s, ok := v.(string)
	if v != nil && !ok {
		o.r.fault(path, "is %s, not a string", kind(v))
	}
	return s
}

func (o object) flag(name string) bool {
	v, path := o.take(name)
	b, ok := v.(bool)
	if v != nil && !ok {
		o.r.fault(path, "is %s, not true or false", kind(v))
	}
	return b
}

// duration reads protobuf's JSON form of a duration, such as "1.5s".
func (o object) duration(name string) (d time.Duration, given bool) {
	v, path := o.take(name)
	if v == nil {
		return 0, false
	}
	s, ok := v.(string)
	if !ok || !seconds.MatchString(s) {
		o.r.fault(path, "%v is not a duration in seconds such as \"0.25s\"", quoted(v))
		return 0, false
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		o.r.fault(path, "%q is too long for a duration; at most 292 years", s)
		return 0, false
	case d < 0:
		o.r.fault(path, "%q is negative", s)
		return 0, false
	}
	return d, true
}

// number reads a finite number; protobuf's JSON allows it as a string, too.
func (o object) number(name string) (n float64, path string, given bool) {
	v, path := o.take(name)
	switch x := v.(type) {
	case nil:
		return 0, path, false
	case int:
		return float64(x), path, true
	case float64:
		n = x
	case string:
		if err := yaml.Load([]byte(x), &n, yaml.WithV4Defaults()); err != nil {
			n = math.NaN()
		}
	default:
		n = math.NaN()
	}
	if math.IsNaN(n) || math.IsInf(n, 0) {
		o.r.fault(path, "%v is not a number", quoted(v))
		return 0, path, false
	}
	return n, path, true
}

// count reads a whole number from 0 to 2³²−1.
func (o object) count(name string) (n int, path string, given bool) {
	f, path, given := o.number(name)
	if !given {
		return 0, path, false
	}
	if f < 0 || f > math.MaxUint32 || f != math.Trunc(f) {
		o.r.fault(path, "%v is not a whole number of 0 or more", f)
		return 0, path, false
	}
	return int(f), path, true
}

// skip reports fields without an equivalent in policies.
func (o object) skip(names ...string) {
	for _, name := range names {
		if v, path := o.take(name); v != nil {
			o.r.note(path, "has no equivalent and is left out")
		}
	}
}

// rest reports the fields that have not been read.
func (o object) rest() {
	names := make([]string, 0, len(o.fields))
	for name := range o.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		o.r.note(o.at(name), "is not known and is left out")
	}
}

// fit clamps a value that is set to Tenet's limits.
func fit[T int | float64 | time.Duration](r *reader, path string, v *T, l policy.Range[T]) {
	if *v == 0 {
		return
	}
	if fitted := min(max(*v, l.Min), l.Max); cmp.Compare(fitted, *v) != 0 {
		r.note(path, "%v is outside the limits; %v is used", *v, fitted)
		*v = fitted
	}
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "empty"
	case map[string]any:
		return "an object"
	case map[any]any:
		return "an object whose names are not strings"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}

func quoted(v any) string {
	switch x := v.(type) {
	case string:
		return fmt.Sprintf("%q", x)
	case map[string]any, map[any]any, []any:
		return kind(v)
	}
	return fmt.Sprint(v)
}
