package policyimport

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// Converted is the result of a conversion.
type Converted struct {
	// Policies by their keys in documents.
	Policies map[string]policy.Policy
	// Defaults apply to calls without a policy. Zero if the input has no such entry.
	Defaults policy.Policy
	Budgets  map[string]policy.Budget
	// Report has a note for each field that was read, in the order of reading, and remarks.
	Report []Note
}

func newConverted() Converted {
	return Converted{Policies: map[string]policy.Policy{}, Budgets: map[string]policy.Budget{}}
}

// add adds a policy under a key, or a similar one if that is taken, and returns its key.
func (c *Converted) add(r *reader, name, path string, p policy.Policy) string {
	key := r.free(name, c.has)
	if key != name {
		r.remark(path, "the name %s is taken by another policy; this one's key is %s", name, key)
	}
	r.checkName(key, path)
	c.Policies[key] = p
	return key
}

func (c *Converted) has(key string) bool {
	_, ok := c.Policies[key]
	return ok
}

// free returns a name that is not taken, or a similar one.
func (r *reader) free(name string, taken func(string) bool) string {
	similar := name
	for n := max(2, r.numbers[name]); taken(similar); n++ {
		similar = fmt.Sprintf("%s-%d", name, n)
		r.numbers[name] = n
	}
	return similar
}

// finish returns the result with its report, or the faults of the input. nothing is the fault of an input without policies.
func (c Converted) finish(r *reader, what, nothing string) (Converted, error) {
	if len(c.Policies) == 0 && c.Defaults.IsZero() && len(r.faults) == 0 {
		r.fault("", "%s", nothing)
	}
	if err := r.err(what); err != nil {
		return Converted{}, err
	}
	c.Report = r.report()
	return c, nil
}

// checkName reports a key or the name of a budget that a document cannot have. path is what it is for.
func (r *reader) checkName(name, path string) {
	problem := fields.BadName(name)
	if problem == "" && policy.ParseKey(name).Surface() != policy.SurfaceCall {
		problem = fmt.Sprintf("%q is a key of jobs or pipeline steps", name)
	}
	if problem != "" {
		r.faults = append(r.faults, Note{Path: path, Message: problem + "; a policy of calls cannot have this name, so rename what it is for"})
	}
}

const maxInput = 4 << 20

// load reads a JSON or YAML object. What cannot be read is a fault.
func (r *reader) load(data []byte) object {
	list, err := r.loadAll(data)
	switch {
	case err != nil:
		r.fault("", "%v", err)
	case len(list) != 1:
		r.fault("", "the input is %d documents; one object is required", len(list))
	default:
		return object{r: r, fields: list[0].fields}
	}
	return object{r: r}
}

// loadAll reads a JSON or YAML object, or several as YAML separates them. The path of each begins with its position, if there are
// several.
func (r *reader) loadAll(data []byte) ([]object, error) {
	if len(data) > maxInput {
		return nil, fmt.Errorf("%d bytes are too many; at most %d are read", len(data), maxInput)
	}
	var roots []any
	if err := yaml.Load(data, &roots, yaml.WithV4Defaults(), yaml.WithAllDocuments()); err != nil {
		f := policyfile.SyntaxFault(err)
		if f.Line == 0 {
			return nil, fmt.Errorf("neither JSON nor YAML: %s", f.Problem)
		}
		return nil, fmt.Errorf("line %d, column %d: neither JSON nor YAML: %s", f.Line, f.Column, f.Problem)
	}
	roots = slices.DeleteFunc(roots, func(v any) bool { return v == nil && len(roots) > 1 })
	list := make([]object, len(roots))
	for i, root := range roots {
		fields, ok := root.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the input is %s; an object is required", kind(root))
		}
		list[i] = object{r: r, fields: fields}
		if len(roots) > 1 {
			list[i].path = fmt.Sprintf("[%d]", i)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the input is empty; an object is required")
	}
	return list, nil
}

// object is a JSON object that is being read. Reading a field removes it.
type object struct {
	r      *reader
	path   string
	fields map[string]any
	from   map[string]string // the paths of fields that another object has; nil if there are none
}

// at returns the path of a field.
func (o object) at(name string) string {
	return cmp.Or(o.from[name], fields.Join(o.path, name))
}

// spelling returns how a field is spelt. name has the spelling of the system's documentation; the other ones are accepted too.
func (o object) spelling(name string) (spelling string, given bool) {
	for _, spelling := range []string{name, snake(name), camel(name), strings.ReplaceAll(snake(name), "_", "-"), capitalised(name)} {
		if _, ok := o.fields[spelling]; ok {
			return spelling, true
		}
	}
	return name, false
}

// take removes a field and returns it.
func (o object) take(name string) (value any, path string) {
	spelling, _ := o.spelling(name)
	value = o.fields[spelling] // a null is an absent value
	delete(o.fields, spelling)
	return value, o.at(spelling)
}

// value is take with placeholders in strings replaced.
func (o object) value(name string) (value any, path string) {
	value, path = o.take(name)
	if text, ok := value.(string); ok && o.r.placeholders != nil {
		value = o.r.placeholders(text, path)
	}
	return value, path
}

// capitalised is a spelling that grpc-go reads, and uses in its examples.
func capitalised(name string) string {
	return strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):]
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
	seconds     = regexp.MustCompile(`^-?([0-9]+\.?|[0-9]*\.[0-9]{1,9})s$`)
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
	return object{r: r, path: path, fields: fields}, ok
}

// list reads a field that is a list of values.
func (o object) list(name string) (items []any, path string) {
	items, path = o.items(name)
	if items != nil {
		o.r.add(Note{Path: path, Fidelity: Exact})
	}
	return items, path
}

func (o object) items(name string) (items []any, path string) {
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
	items, path := o.items(name)
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

func (o object) text(name string) string { return read[string](o, name, "a string") }

func (o object) flag(name string) bool { return read[bool](o, name, "true or false") }

// read reads a field of a plain type, which wanted names.
func read[T any](o object, name, wanted string) T {
	v, path := o.value(name)
	x, ok := v.(T)
	switch {
	case ok:
		o.r.add(Note{Path: path, Fidelity: Exact})
	case v != nil:
		o.r.fault(path, "is %s, not %s", kind(v), wanted)
	}
	return x
}

// enum reads a value of a protobuf enumeration, which JSON has by name or number. The first one is the default.
func (o object) enum(name string, values ...string) string {
	if n, ok := o.fields[name].(int); ok && n >= 0 && n < len(values) {
		o.fields[name] = values[n]
	}
	text := cmp.Or(o.text(name), values[0])
	if !slices.Contains(values, text) {
		o.r.fault(o.at(name), "%q is none of %s", text, strings.Join(values, ", "))
	}
	return text
}

// duration reads protobuf's JSON form of a duration, such as "1.5s", and ".5s" as grpc-go does.
func (o object) duration(name string) (d time.Duration, given bool) {
	v, path := o.take(name)
	if v == nil {
		return 0, false
	}
	o.r.add(Note{Path: path, Fidelity: Exact})
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

// span reads a duration as Go writes it, such as "1m30s".
func (o object) span(name string) (d time.Duration, given bool) {
	v, path := o.take(name)
	if v == nil {
		return 0, false
	}
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		o.r.fault(path, "%v is not a duration such as \"250ms\" or \"1m30s\"", quoted(v))
		return 0, false
	}
	o.r.add(Note{Path: path, Fidelity: Exact})
	return d, true
}

// number reads a finite number.
func (o object) number(name string) (n float64, path string, given bool) {
	v, path := o.value(name)
	if v == nil {
		return 0, path, false
	}
	n, ok := numberOf(v)
	if !ok {
		o.r.fault(path, "%v is not a number", quoted(v))
		return 0, path, false
	}
	o.r.add(Note{Path: path, Fidelity: Exact})
	return n, path, true
}

// numberOf returns a finite number; protobuf's JSON allows it as a string, too.
func numberOf(v any) (n float64, ok bool) {
	switch x := v.(type) {
	case int:
		n = float64(x)
	case uint64: // beyond int
		n = float64(x)
	case float64:
		n = x
	case string:
		var err error
		if n, err = strconv.ParseFloat(x, 64); err != nil {
			return 0, false
		}
	default:
		return 0, false
	}
	return n, !math.IsNaN(n) && !math.IsInf(n, 0)
}

// count reads a whole number from 0 to 2³²−1, or to 2³¹−1 on a machine of 32 bits.
func (o object) count(name string) (n int, path string, given bool) {
	f, path, given := o.number(name)
	if !given {
		return 0, path, false
	}
	const most = min(math.MaxUint32, math.MaxInt)
	if f < 0 || f > most || f != math.Trunc(f) {
		o.r.fault(path, "%s is not a whole number from 0 to %d", strconv.FormatFloat(f, 'f', -1, 64), most)
		return 0, path, false
	}
	return int(f), path, true
}

// atLeastOne reads a whole number of 1 or more.
func (o object) atLeastOne(name string, otherwise int) (n int, path string) {
	n, path, given := o.count(name)
	switch {
	case !given:
		n = otherwise
	case n == 0:
		o.r.fault(path, "must be 1 or more")
	}
	return n, path
}

// fitted is atLeastOne within limits.
func (o object) fitted(name string, otherwise int, limits policy.Range[int]) int {
	n, path := o.atLeastOne(name, otherwise)
	fit(o.r, path, &n, limits)
	return n
}

// skip reports fields without an equivalent in policies.
func (o object) skip(names ...string) { o.lose("has no equivalent and is left out", names...) }

// lose reports fields that are left out for a reason.
func (o object) lose(why string, names ...string) {
	for _, name := range names {
		if v, path := o.take(name); v != nil {
			o.r.lost(path, "%s", why)
		}
	}
}

// names lists the fields that have not been read.
func (o object) names() []string { return slices.Sorted(maps.Keys(o.fields)) }

// rest reports the fields that have not been read. The known ones among them have no equivalent in policies.
func (o object) rest(known ...string) {
	o.skip(known...)
	for _, name := range o.names() {
		o.r.lost(o.at(name), "is not known and is left out")
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
