package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/tenetdev/tenet/internal/fields"
	"github.com/tenetdev/tenet/simulate"
)

// readComments returns the doc comments of struct types ("Retry") and of their documented fields
// ("Retry.max_attempts") in the packages at dirs, each in one line.
func readComments(dirs ...string) (map[string]string, error) {
	comments := map[string]string{}
	for _, dir := range dirs {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", dir, err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return nil, fmt.Errorf("read comments: %w", err)
			}
			collect(file, comments)
		}
	}
	return comments, nil
}

func collect(file *ast.File, comments map[string]string) {
	for _, d := range file.Decls {
		general, ok := d.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			spec := spec.(*ast.TypeSpec)
			object, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			doc := cmp.Or(spec.Doc, general.Doc)
			comments[spec.Name.Name] = line(doc)
			for _, f := range object.Fields.List {
				if name := documentName(f); name != "" {
					comments[spec.Name.Name+"."+name] = renamed(line(f.Doc), f, name)
				}
			}
		}
	}
}

func documentName(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}

// renamed replaces the field's Go name at the start of a comment by its name in documents.
func renamed(comment string, f *ast.Field, name string) string {
	for _, id := range f.Names {
		if rest, ok := strings.CutPrefix(comment, id.Name+" "); ok && !strings.EqualFold(id.Name, name) {
			return name + " " + rest
		}
	}
	return comment
}

func line(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// scenarioTypes adds the names of the types that a scenario consists of.
func scenarioTypes(t reflect.Type, names map[string]bool) {
	switch {
	case t.Kind() == reflect.Map:
		scenarioTypes(t.Elem(), names)
	case t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[simulate.Scenario]().PkgPath():
		names[t.Name()] = true
		for _, f := range fields.Of(t) {
			scenarioTypes(f.Type, names)
		}
	}
}

// descriptions writes the comments of documented types as JSON.
func descriptions(comments map[string]string) ([]byte, error) {
	documented := map[string]bool{}
	for _, o := range objects() {
		documented[o.name()] = true
	}
	scenarioTypes(reflect.TypeFor[simulate.Scenario](), documented)
	comments = maps.Clone(comments)
	maps.DeleteFunc(comments, func(name, _ string) bool {
		object, _, _ := strings.Cut(name, ".")
		return !documented[object]
	})
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(comments)
	return b.Bytes(), err
}
