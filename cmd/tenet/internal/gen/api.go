package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/adapter/memory"
	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/internal/lists"
	"github.com/tenetdev/tenet/server"
)

// apiDocument is what the reference shows of an OpenAPI document.
type apiDocument struct {
	Paths      map[string]map[string]apiOperation
	Components struct{ Schemas map[string]apiSchema }
}

type apiOperation struct {
	OperationID, Summary, Description string
	Tags                              []string
	Parameters                        []apiParameter
	RequestBody                       struct{ Content map[string]apiContent }
	Responses                         map[string]struct{ Content map[string]apiContent }
}

type apiParameter struct {
	Name, In, Description string
	Required              bool
	Schema                apiSchema
}

type apiContent struct{ Schema apiSchema }

type apiSchema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Format, Description  string
	Properties           map[string]apiSchema
	Required             []string
	Items                *apiSchema
	AdditionalProperties any
	Enum                 []any
	Default              any
}

// nothing is an empty audit log.
type nothing struct{}

func (nothing) Read(context.Context, string, func(string, []byte) error) error { return nil }

func (nothing) Heads(context.Context) ([]audit.Head, error) { return nil, nil }

// readAPI returns the OpenAPI document of the server.
func readAPI() (d apiDocument, err error) {
	db := memory.Open()
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := server.New(context.Background(), server.Options{
		Stores:   server.Stores{Jobs: db.Jobs(), Records: db.Idempotency(), Audit: nothing{}, Policies: db.Policies()},
		ReadOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return d, err
	}
	answer := httptest.NewRecorder()
	s.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/v1/openapi.json", http.NoBody))
	if answer.Code != http.StatusOK {
		return d, fmt.Errorf("the OpenAPI document: %d %s", answer.Code, answer.Body)
	}
	return d, json.Unmarshal(answer.Body.Bytes(), &d)
}

// apiReference describes every operation of the HTTP API and every type of its bodies.
func apiReference() ([]byte, error) {
	d, err := readAPI()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	tags := map[string][]string{} // rows by tag
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range []string{"get", "post", "put", "delete"} {
			if o, ok := d.Paths[path][method]; ok {
				tag := "Server"
				if len(o.Tags) > 0 {
					tag = o.Tags[0]
				}
				tags[tag] = append(tags[tag], operationText(strings.ToUpper(method), path, o))
			}
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		fmt.Fprintf(&b, "## %s\n\n%s", tag, strings.Join(tags[tag], ""))
	}
	fmt.Fprint(&b, "## Types\n\n")
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		writeType(&b, name, d.Components.Schemas[name])
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n'), nil
}

// operationText is an operation's section.
func operationText(method, path string, o apiOperation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n`%s %s`\n\n%s.\n", o.Summary, method, path, strings.TrimSuffix(cmp.Or(oneLine(o.Description), o.Summary), "."))
	if len(o.Parameters) > 0 {
		fmt.Fprint(&b, "\n| parameter | in | type | meaning |\n|---|---|---|---|\n")
		for _, p := range o.Parameters {
			meaning := oneLine(p.Description)
			if p.Required && p.In != "path" {
				meaning = strings.TrimSpace("Required. " + meaning)
			}
			if p.Schema.Default != nil {
				meaning = strings.TrimSpace(fmt.Sprintf("%s Default %v.", meaning, p.Schema.Default))
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.In, p.Schema.text(), meaning)
		}
	}
	if body := bodyText(o.RequestBody.Content); body != "" {
		fmt.Fprintf(&b, "\nRequest: %s.\n", body)
	}
	var answers []string
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		if body := bodyText(o.Responses[status].Content); body != "" && status < "300" {
			answers = append(answers, status+" "+body)
		} else if status < "300" {
			answers = append(answers, status)
		}
	}
	if len(answers) > 0 {
		fmt.Fprintf(&b, "\nAnswer: %s.\n", strings.Join(answers, ", "))
	}
	return b.String() + "\n"
}

func bodyText(content map[string]apiContent) string {
	media := slices.Sorted(maps.Keys(content))
	switch {
	case len(media) == 0:
		return ""
	case media[0] == "application/json" && content[media[0]].Schema.text() != "":
		return content[media[0]].Schema.text()
	}
	return "`" + media[0] + "`"
}

func writeType(b *bytes.Buffer, name string, s apiSchema) {
	fmt.Fprintf(b, "### %s\n\n", name)
	if s.Description != "" {
		fmt.Fprintf(b, "%s\n\n", oneLine(s.Description))
	}
	if len(s.Properties) == 0 {
		fmt.Fprintf(b, "%s.\n\n", cmp.Or(s.text(), "any JSON"))
		return
	}
	fmt.Fprint(b, "| field | type | meaning |\n|---|---|---|\n")
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		p, presence := s.Properties[field], ", optional"
		if slices.Contains(s.Required, field) {
			presence = ""
		}
		fmt.Fprintf(b, "| `%s` | %s%s | %s |\n", field, p.text(), presence, oneLine(p.Description))
	}
	fmt.Fprintln(b)
}

// text names a type; types of the API are links.
func (s apiSchema) text() string {
	switch kind := kindOf(s.Type); {
	case s.Ref != "":
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case len(s.Enum) > 0:
		return strings.Join(lists.Map(s.Enum, func(v any) string { return fmt.Sprintf("`%v`", v) }), ", ")
	case kind == "array" && s.Items != nil:
		return "list of " + s.Items.text()
	case s.Format != "" && kind == "string":
		return s.Format
	default:
		return kind
	}
}

// kindOf is a type of JSON Schema without null.
func kindOf(t any) string {
	if list, ok := t.([]any); ok {
		for _, one := range list {
			if one != "null" {
				return fmt.Sprint(one)
			}
		}
	}
	text, _ := t.(string)
	return text
}

func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
