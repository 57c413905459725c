package policyfile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/internal/near"
	"github.com/tenetdev/tenet/policy"
)

var (
	documentType = reflect.TypeFor[File]()
	freeType     = reflect.TypeFor[map[string]any]()
	categoryType = reflect.TypeFor[policy.Category]()
)

// reader checks nodes against Go types and turns them into plain values: objects are map[string]any, lists []any,
// numbers float64, durations float64 seconds, an explicit none is nil. Faulty fields are left out.
type reader struct {
	faults     *faults
	fields     map[string]field // by path, see EntryPath
	clamped    map[string]bool  // paths whose values were clamped to the range of their Go types
	references []reference
	deprecated map[string]string // see fields.Deprecated
}

func newReader(f *faults, deprecated map[string]string) *reader {
	return &reader{faults: f, fields: map[string]field{}, clamped: map[string]bool{}, deprecated: deprecated}
}

// field is the place of a field in the document.
type field struct {
	key, value place
	none       bool // explicitly none
}

// outline checks the rules for all nodes: no tags, no merge keys, string keys without duplicates.
func (r *reader) outline(n *yaml.Node, path string) {
	if n.Style&yaml.TaggedStyle != 0 {
		r.faults.add(placeOf(n), path, "tag "+short(n.Tag)+" is not supported", "remove the tag")
	}
	if n.Kind != yaml.MappingNode {
		for i, item := range n.Content {
			r.outline(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := target(n.Content[i])
		name, ok := keyName(key)
		at := placeOf(n.Content[i])
		switch {
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge":
			r.faults.add(at, fields.Join(path, "<<"), "merge keys are not supported", "write the fields out, or use defaults")
		case !ok:
			r.faults.add(at, path, "expected a string as key, found "+kindName(key), "put the key in quotes")
		case seen[name] != 0:
			r.faults.add(at, EntryPath(path, short(name)), fmt.Sprintf("given twice, first in line %d", seen[name]), "keep one of the two")
		default:
			seen[name] = n.Content[i].Line
		}
		r.outline(n.Content[i+1], EntryPath(path, short(name)))
	}
}

// keyName reads a mapping's key, which must be a string.
func keyName(key *yaml.Node) (string, bool) {
	ok := key.Kind == yaml.ScalarNode && isString(key)
	return key.Value, ok
}

// object reads a mapping into the fields of struct type t.
func (r *reader) object(n *yaml.Node, t reflect.Type, path string) map[string]any {
	object := map[string]any{}
	known := fields.Of(t)
	seen := map[string]bool{} // r.fields cannot tell: an entry may be named like a field of another, as in users.retry
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, ok := keyName(target(n.Content[i]))
		if !ok {
			continue
		}
		at := placeOf(n.Content[i])
		if remedy, ok := r.deprecated[t.Name()+"."+name]; ok {
			r.faults.warn(at, fields.Join(path, name), "deprecated", remedy)
		}
		f := slices.IndexFunc(known, func(f fields.Field) bool { return f.Name == name })
		if f < 0 {
			r.unknown(at, t, path, name)
			continue
		}
		where := fields.Join(path, name)
		if seen[name] {
			continue // outline has reported it
		}
		seen[name] = true
		r.fields[where] = field{key: at, value: placeOf(n.Content[i+1])}
		value, ok := r.field(target(n.Content[i+1]), known[f], where)
		if ok {
			object[name] = value
			r.fields[where] = field{key: at, value: placeOf(n.Content[i+1]), none: value == nil}
		}
	}
	return object
}

func (r *reader) unknown(at place, t reflect.Type, path, name string) {
	if _, ok := r.deprecated[t.Name()+"."+name]; ok {
		return
	}
	names := lists.Map(fields.Of(t), func(f fields.Field) string { return f.Name })
	remedy := "known here: " + strings.Join(names, ", ")
	if match := near.Name(name, names); match != "" {
		remedy = fmt.Sprintf("did you mean %q?", match)
	}
	where := path
	if fields.BadName(name) == "" {
		where = EntryPath(path, short(name))
	}
	r.faults.add(at, where, fmt.Sprintf("unknown field %q", short(name)), remedy)
}

// field reads a field.
func (r *reader) field(n *yaml.Node, f fields.Field, path string) (any, bool) {
	if n.Style&yaml.TaggedStyle != 0 {
		return nil, false // outline has reported it
	}
	if f.Rule.Reserved {
		problem, remedy := f.Rule.Check(0)
		r.faults.add(placeOf(n), path, problem, remedy)
		return nil, false
	}
	if f.Rule.Null && isNone(n) {
		return nil, true
	}
	if isNull(n) {
		r.faults.add(placeOf(n), path, "null is not accepted", "write a value, or leave the field out")
		return nil, false
	}
	switch {
	case f.Type == freeType:
		return r.free(n, path)
	case f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
		return r.objects(n, f.Type.Elem(), path)
	case f.Type.Kind() == reflect.Slice:
		return r.list(n, f.Kind, path)
	case f.Type.Kind() == reflect.Map:
		return r.entries(n, f.Type.Elem(), path)
	case f.Type.Kind() == reflect.Struct:
		if n.Kind != yaml.MappingNode {
			return r.mismatch(n, path, "an object", "write its fields, or leave it out")
		}
		return r.object(n, f.Type, path), true
	case f.Kind != "":
		return r.name(n, f.Kind, path)
	}
	return r.scalar(n, f, path)
}

func (r *reader) mismatch(n *yaml.Node, path, expected, remedy string) (any, bool) {
	r.faults.add(placeOf(n), path, "expected "+expected+", found "+kindName(n), remedy)
	return nil, false
}

// entries reads a mapping of names to objects of struct type t.
func (r *reader) entries(n *yaml.Node, t reflect.Type, path string) (any, bool) {
	if n.Kind != yaml.MappingNode {
		return r.mismatch(n, path, "an object", "write names with their entries")
	}
	entries, seen := map[string]any{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, ok := keyName(target(n.Content[i]))
		at, value := placeOf(n.Content[i]), target(n.Content[i+1])
		if !ok {
			continue
		}
		where := EntryPath(path, name)
		if seen[name] {
			continue // outline has reported it
		}
		seen[name] = true
		if problem := fields.BadName(name); problem != "" {
			r.faults.add(at, path, problem, "write a plain name")
			continue
		}
		if t == reflect.TypeFor[policy.Policy]() && foreignForm.MatchString(name) {
			r.faults.add(at, where, "keys of jobs and pipeline steps cannot be policies of calls", "write it under queues, jobs, consumers or producers")
			continue
		}
		if strings.Contains(name, "*") {
			r.faults.warn(at, where, "* is not a wildcard: names match exactly", "write an entry for each name")
		}
		r.fields[where] = field{key: at, value: placeOf(n.Content[i+1])}
		if value.Kind != yaml.MappingNode {
			r.mismatch(value, where, "an object", "write its fields, or {} for none")
			continue
		}
		entries[name] = r.object(value, t, where)
	}
	return entries, true
}

// objects reads a list of objects of struct type t.
func (r *reader) objects(n *yaml.Node, t reflect.Type, path string) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		return r.mismatch(n, path, "a list", "write its entries one below the other, each after a hyphen")
	}
	list := []any{}
	for i, item := range n.Content {
		where := fmt.Sprintf("%s[%d]", path, i)
		at := placeOf(item)
		r.fields[where] = field{key: at, value: at}
		values := map[string]any{}
		if item = target(item); item.Kind == yaml.MappingNode {
			values = r.object(item, t, where)
		} else {
			r.mismatch(item, where, "an object", "write its fields")
		}
		list = append(list, values) // also an invalid one, so that later items keep their indices
	}
	return list, true
}

// list reads a list of names.
func (r *reader) list(n *yaml.Node, kind, path string) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		return r.mismatch(n, path, "a list", "write it in brackets, as in [timeout]")
	}
	list := []any{}
	for i, item := range n.Content {
		where, at := fmt.Sprintf("%s[%d]", path, i), placeOf(item)
		r.fields[where] = field{key: at, value: at}
		switch name, ok := r.name(target(item), kind, where); {
		case ok:
			list = append(list, name)
		case kind == "":
			list = append(list, "") // later items keep their indices
		}
	}
	return list, true
}

// require reports the text fields that the object at path lacks.
func (r *reader) require(path string, values map[string]any, names ...string) {
	for _, name := range names {
		if where := fields.Join(path, name); !r.faults.bad[path] && (values[name] == nil && !r.faults.bad[where] || values[name] == "") {
			r.faults.add(r.fields[path].value, where, "missing", "write it")
		}
	}
}

// name reads a name and, if kind is not empty, records that something must define it.
func (r *reader) name(n *yaml.Node, kind, path string) (any, bool) {
	if n.Kind != yaml.ScalarNode || !isString(n) {
		return r.mismatch(n, path, "a name", "write a string, in quotes if need be")
	}
	if problem := fields.BadName(n.Value); problem != "" {
		r.faults.add(placeOf(n), path, problem, "write a plain name")
		return nil, false
	}
	if kind != "" {
		r.references = append(r.references, reference{kind: kind, name: n.Value, path: path, at: placeOf(n)})
	}
	return n.Value, true
}

// object returns the object in a field of a document's values, or nil.
func object(of map[string]any, name string) map[string]any {
	value, _ := of[name].(map[string]any)
	return value
}
