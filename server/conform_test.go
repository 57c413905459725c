package server

import (
	"bytes"
	_ "embed" // the schema
	"fmt"
	"maps"
	"mime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// openapiSchema is the schema of OpenAPI 3.1 documents that the OpenAPI Initiative publishes, under the Apache License 2.0.
//
//go:embed testdata/openapi-3.1.json
var openapiSchema []byte

// openapiURL is the $id of openapiSchema.
const openapiURL = "https://spec.openapis.org/oas/3.1/schema/2022-10-07"

// documented checks answers against an OpenAPI document.
type documented struct {
	paths    map[string]any
	compiler *jsonschema.Compiler
}

// checker returns a check against the document. It fails the test unless the document is an OpenAPI document and each of its
// shared schemas is a JSON schema; those in operations are checked with the answers.
func checker(t *testing.T, e *env) documented {
	t.Helper()
	d := documented{compiler: jsonschema.NewCompiler()}
	d.compiler.AssertFormat()
	parsed := decoded(t, []byte(e.get("/v1/openapi.json").body))
	for url, content := range map[string]any{openapiURL: decoded(t, openapiSchema), "openapi.json": parsed} {
		if err := d.compiler.AddResource(url, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.compiler.MustCompile(openapiURL).Validate(parsed); err != nil {
		t.Fatalf("the document: %#v", err)
	}
	d.paths = object(parsed, "paths")
	for name := range object(parsed, "components", "schemas") {
		if _, err := d.compiler.Compile(at("components", "schemas", name)); err != nil {
			t.Errorf("the document: %#v", err)
		}
	}
	return d
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// object returns the object under some fields; nil if there is none.
func object(value any, fields ...string) map[string]any {
	o, _ := value.(map[string]any)
	for _, f := range fields {
		o, _ = o[f].(map[string]any)
	}
	return o
}

// at is the URL of a place in the document.
func at(fields ...string) string {
	url := "openapi.json#"
	for _, f := range fields {
		url += "/" + strings.NewReplacer("%", "%25", "~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(f)
	}
	return url
}

// template returns the documented path that fits path best: the one with the fewest parameters.
func (d documented) template(path string) string {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	best := ""
	for t := range d.paths {
		fits := slices.EqualFunc(segments, strings.Split(t, "/"), func(s, pattern string) bool { return s == pattern || strings.HasPrefix(pattern, "{") && s != "" })
		if fits && (best == "" || strings.Count(t, "{") < strings.Count(best, "{")) {
			best = t
		}
	}
	return best
}

// check reports how an answer differs from the document.
func (d documented) check(method, path string, r reply) error {
	method, path = strings.ToLower(method), d.template(path)
	responses := object(d.paths, path, method, "responses")
	status := strconv.Itoa(r.status)
	if responses[status] == nil {
		status = "default"
	}
	response := object(responses, status)
	if response == nil {
		return fmt.Errorf("the status is not documented; documented are %v", slices.Sorted(maps.Keys(responses)))
	}
	place := []string{"paths", path, method, "responses", status}
	for name, header := range object(response, "headers") {
		given := r.header.Values(name)
		if len(given) == 0 {
			if object(header)["required"] == true {
				return fmt.Errorf("header %s is missing", name)
			}
			continue
		}
		var value any = given[0]
		if object(header, "schema")["type"] != "string" {
			var err error
			if value, err = jsonschema.UnmarshalJSON(strings.NewReader(given[0])); err != nil {
				return fmt.Errorf("header %s: %w", name, err)
			}
		}
		if err := d.validate(value, append(place, "headers", name, "schema")...); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	content := object(response, "content")
	if len(content) == 0 {
		if r.body != "" {
			return fmt.Errorf("a body, and none is documented")
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil || content[media] == nil {
		return fmt.Errorf("content type %q is not documented; documented are %v", r.header.Get("Content-Type"), slices.Sorted(maps.Keys(content)))
	}
	if object(content, media, "schema") == nil || !strings.HasSuffix(media, "json") {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(r.body))
	if err != nil {
		return err
	}
	return d.validate(value, append(place, "content", media, "schema")...)
}

func (d documented) validate(value any, place ...string) error {
	schema, err := d.compiler.Compile(at(place...))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func TestS7TheCheckFindsAnswersThatTheDocumentDoesNotDescribe(t *testing.T) {
	e := newEnv(t, nil)
	d := checker(t, e)
	right := e.get("/v1/session")
	if err := d.check("GET", "/v1/session", right); err != nil {
		t.Fatalf("%#v", err)
	}
	for name, change := range map[string]func(r *reply){
		"another status":       func(r *reply) { r.status = 204 },
		"another content type": func(r *reply) { r.header.Set("Content-Type", "text/html") },
		"not JSON":             func(r *reply) { r.body = "{" },
		"a field missing":      func(r *reply) { r.body = "{}" },
		"an unknown field":     func(r *reply) { r.body = `{"unknown":1,` + r.body[1:] },
	} {
		wrong := reply{status: right.status, header: right.header.Clone(), body: right.body}
		change(&wrong)
		if d.check("GET", "/v1/session", wrong) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if d.check("GET", "/v1/nowhere", right) == nil {
		t.Error("another path: accepted")
	}
}
