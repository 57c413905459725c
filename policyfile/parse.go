package policyfile

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/internal/canonical"
	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/policy"
)

// version is the only version of the document language.
const version = 1

// Options of [Parse]. The zero value reads a file under the built-in limits.
type Options struct {
	// Source is recorded in every policy of the document. Default policy.SourceFile.
	Source policy.Source
	// Limits are an operator's own limits by surface, wider or narrower than the built-in ones, which hold for surfaces
	// that are absent. A document may tighten them.
	Limits map[policy.Surface]policy.Limits
	// Declared are names that the program supplies, in addition to those that a document declares.
	Declared Declared
}

func (o Options) limits(s policy.Surface) policy.Limits {
	if l, ok := o.Limits[s]; ok {
		return l
	}
	return policy.LimitsFor(s)
}

// Document is an accepted document. It is read-only and safe for concurrent use.
type Document struct {
	// Set is the compiled document.
	Set *policy.Set
	// Warnings in the order of their places: values that were clamped, fields that are deprecated, and names that look like patterns.
	Warnings []Fault

	fields  map[string]field
	levels  map[policy.Key][]string
	surface map[policy.Surface][]string
	root    map[string]any // the document as it was hashed
	faults  *faults
}

// Suppressed lists the findings of tenet policy prove that the document accepts.
func (d *Document) Suppressed() []Suppression { return as[Prove](object(d.root, "prove")).Suppress }

// Outages lists the outages that the document's work must survive.
func (d *Document) Outages() []Outage { return as[Prove](object(d.root, "prove")).Outages }

// Locate returns a fault, still without a problem, at a field of a key's policy: where the document gives the field, else
// the innermost object around it, else at the key's own object.
func (d *Document) Locate(key policy.Key, field string) Fault {
	for ; field != ""; field = field[:max(strings.LastIndexByte(field, '.'), 0)] {
		if path, line := d.origin(key, field); line > 0 {
			return d.LocatePath(path)
		}
	}
	levels := d.levels[key]
	if len(levels) == 0 {
		levels = d.surface[key.Surface()]
	}
	return d.LocatePath(levels[0])
}

// LocatePath is Locate for a full path, which it keeps.
func (d *Document) LocatePath(path string) Fault {
	at := around(d.fields, path).key
	f := Fault{File: d.faults.file, Line: max(at.line, 1), Column: max(at.column, 1), Path: shown(path)}
	if lines := d.faults.lines; f.Line <= len(lines) {
		f.source = lines[f.Line-1]
	}
	return f
}

// Line is the line of a field by its full path, for example "policies.user-service.GetUser.retry.max_attempts", or 0
// where the document does not hold it. A field's line is that of its name.
func (d *Document) Line(path string) int { return d.fields[path].key.line }

// Origin tells where a field of a key's policy was taken from: field is the path inside the policy, for example
// "retry.max_attempts", and the answer is a path in the document with its line. It is "" and 0 for a value that is
// built in or comes from the catalog.
func (d *Document) Origin(key policy.Key, field string) (path string, line int) {
	path, line = d.origin(key, field)
	return shown(path), line
}

func (d *Document) origin(key policy.Key, field string) (path string, line int) {
	levels := d.surface[key.Surface()]
	for _, named := range []policy.Key{key, policy.JobKey("", key.Name), {Namespace: key.Namespace}} { // as the set looks it up
		if found, ok := d.levels[named]; ok && named.Surface() == key.Surface() {
			levels = found
			break
		}
	}
	for _, level := range levels {
		if path, f, ok := find(d.fields, level, field); ok {
			return path, f.key.line
		}
	}
	return "", 0
}

// Parse reads a document in YAML or JSON and compiles it. name is the file's name in faults. A refused document gives
// an [*Error] with all of its faults and no document.
//
// The set's revision is the SHA-256 of the document's canonical JSON (RFC 8785) with durations in seconds, so that two
// spellings of the same document, in YAML or JSON, have the same revision.
func Parse(name string, data []byte, o Options) (*Document, error) {
	return parse(name, data, o, fields.Deprecated())
}

func parse(name string, data []byte, o Options, deprecated map[string]string) (*Document, error) {
	node, faults := load(name, data, "start with version: 1")
	if node == nil {
		return nil, &Error{Faults: faults.sorted()}
	}
	r := newReader(faults, deprecated)
	return r.compiled(name, r.document(node, documentType), o)
}

// compiled compiles the policies of a document whose fields have been read.
func (r *reader) compiled(name string, root map[string]any, o Options) (*Document, error) {
	faults := r.faults
	r.resolve(known(root, o.Declared))
	o.Source = cmp.Or(o.Source, policy.SourceFile)
	c := compile(r, root, o)
	if faults.failed() {
		return nil, &Error{Faults: faults.sorted()}
	}
	config, err := c.config()
	if err == nil {
		config.Revision, err = canonical.Hash(root)
	}
	if err != nil {
		return nil, fmt.Errorf("policyfile: %s: %w", name, err)
	}
	// Callers give paths with dots only. Where two fields have the same, it is that of the one without a dot in its name, or of the first.
	known := map[string]field{}
	for path, f := range r.fields {
		plain := shown(path)
		if other, ok := known[plain]; plain != path && (!ok || cmp.Or(f.key.line-other.key.line, f.key.column-other.key.column) < 0) {
			known[plain] = f
		}
	}
	maps.Copy(known, r.fields)
	return &Document{
		Set: policy.NewSet(config), Warnings: faults.sorted(),
		fields: known, levels: c.levels, surface: c.surface, root: root, faults: faults,
	}, nil
}

// ParsePolicy reads the policy of one key, as package policy writes it, in JSON or YAML, and compiles it. It is as strict as
// [Parse] and returns the same [*Error]; warnings come with the policy. Budgets that the policy names are not looked for: code
// registers them.
func ParsePolicy(name string, data []byte, key policy.Key, o Options) (*policy.Policy, []Fault, error) {
	node, faults := load(name, data, "write a policy's fields, or {} for none")
	if node == nil {
		return nil, nil, &Error{Faults: faults.sorted()}
	}
	r := newReader(faults, fields.Deprecated())
	r.outline(node, "")
	values := r.object(node, reflect.TypeFor[policy.Policy](), "")
	r.references = slices.DeleteFunc(r.references, func(ref reference) bool { return ref.kind == "budget" })
	r.resolve(known(nil, o.Declared))
	surface := key.Surface()
	c := &compiler{reader: r, broken: maps.Clone(faults.bad), limits: map[policy.Surface]policy.Limits{surface: o.limits(surface)}}
	p, _ := c.merged(surface, []level{{values: values}}, nil)
	if faults.failed() {
		return nil, nil, &Error{Faults: faults.sorted()}
	}
	p.Key = key
	compiled, err := c.compiled(p, surface, cmp.Or(o.Source, policy.SourceFile))
	if err != nil {
		return nil, nil, fmt.Errorf("policyfile: %s: %w", name, err)
	}
	return compiled, faults.sorted(), nil
}

// document checks the top of a document.
func (r *reader) document(node *yaml.Node, t reflect.Type) map[string]any {
	r.outline(node, "")
	root := r.object(node, t, "")
	at := placeOf(node)
	switch v, given := root["version"].(float64); {
	case r.faults.bad["version"]:
	case !given:
		r.faults.add(at, "version", "missing", "write version: 1")
	case v != version:
		r.faults.add(r.fields["version"].value, "version", fmt.Sprintf("%g is not a known version", v), "write version: 1")
	}
	for list, names := range map[string][]string{"outages": {"path", "lasts"}, "suppress": {"code", "path", "reason"}} {
		entries, _ := object(root, "prove")[list].([]any)
		for i, entry := range entries {
			r.require(fmt.Sprintf("prove.%s[%d]", list, i), entry.(map[string]any), names...)
		}
	}
	return root
}
