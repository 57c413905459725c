package policyfile

import (
	"encoding/json"
	"maps"
	"reflect"
)

// Embed reads a document of another language that holds policies of calls beside its own fields, as strictly as [Parse]. into
// points to a struct that describes the language as [File] does: its fields named version, declared, defaults, budgets and
// policies, where it has them, are those of a policy document. The struct is set from the document.
func Embed(name string, data []byte, into any, o Options) (*Document, error) {
	node, faults := load(name, data, "start with version: 1")
	if node == nil {
		return nil, &Error{Faults: faults.sorted()}
	}
	v := reflect.ValueOf(into).Elem()
	r := newReader(faults, nil)
	root := r.document(node, v.Type())
	d, err := r.compiled(name, root, o)
	if err != nil {
		return nil, err
	}
	assign(v, root)
	return d, nil
}

// Refuse adds a fault at a path of an embedding document and returns the [*Error] of the document with all of its faults. A path
// that the document does not hold stands for the object around it.
func (d *Document) Refuse(path, problem, remedy string) *Error {
	at := around(d.fields, path).key
	d.faults.add(at, path, problem, remedy)
	return &Error{Faults: d.faults.sorted()}
}

// EmbeddingSchema returns the JSON Schema of the language that a struct for [Embed] describes.
func EmbeddingSchema(of any, id, title string) []byte {
	s := schemas{defs: map[string]any{}, root: reflect.TypeOf(of)}
	return s.document(id, title)
}

// document is the schema of the root.
func (s schemas) document(id, title string) []byte {
	root := s.object(s.root)
	maps.Copy(root, map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": id, "title": title,
		"required": []string{"version"}, "$defs": s.defs,
	})
	if s.example != nil {
		root["examples"] = []any{s.example}
	}
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("policyfile: schema: " + err.Error()) // it holds only maps, lists, strings and finite numbers
	}
	return append(text, '\n')
}
