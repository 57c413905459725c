package policyfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tenetdev/tenet/internal/fields"
)

// Format lays a document out: fields in the order of their declaration, two spaces of indentation, one empty line between sections.
// Names of policies, queues and the like keep their order, and comments stay with what they stand above, beside or below. A document
// with anchors keeps the order of its fields too, and one in JSON is only indented. Format refuses what [Parse] refuses, with the same
// error. Formatting the result changes nothing.
func Format(name string, data []byte, o Options) ([]byte, error) {
	before, err := Parse(name, data, o)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if json.Valid(data) {
		var out bytes.Buffer
		if err := json.Indent(&out, bytes.TrimSpace(data), "", "  "); err != nil {
			return nil, fmt.Errorf("policyfile: %w", err)
		}
		return append(out.Bytes(), '\n'), nil
	}
	var document yaml.Node
	if err := yaml.Load(readable(data), &document, yaml.WithV4Defaults()); err != nil {
		return nil, fmt.Errorf("policyfile: %w", err)
	}
	if !anchored(&document) {
		arrange(document.Content[0], documentType)
	}
	text, err := dump(&document)
	if err != nil {
		return nil, err
	}
	text = spaced(text)
	after, err := Parse(name, text, o)
	if err != nil || after.Set.Revision() != before.Set.Revision() {
		return nil, errors.Join(fmt.Errorf("policyfile: %s: the document would not mean the same, which is a bug in tenet; it was not changed", name), err)
	}
	return text, nil
}

func anchored(n *yaml.Node) bool {
	return n.Anchor != "" || n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, anchored)
}

// arrange puts the fields of an object, and of the objects in it, into the order of their declaration.
func arrange(n *yaml.Node, t reflect.Type) {
	switch {
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, item := range n.Content {
			arrange(item, t.Elem())
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Map:
		for i := 1; i < len(n.Content); i += 2 {
			arrange(n.Content[i], t.Elem())
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct && !fields.IsDuration(t):
		list := fields.Of(t)
		entries := slices.Collect(slices.Chunk(n.Content, 2))
		place := func(entry []*yaml.Node) int {
			return slices.IndexFunc(list, func(f fields.Field) bool { return f.Name == entry[0].Value })
		}
		slices.SortStableFunc(entries, func(a, b []*yaml.Node) int { return cmp.Compare(place(a), place(b)) })
		n.Content = slices.Concat(entries...)
		for _, entry := range entries {
			if at := place(entry); at >= 0 {
				arrange(entry[1], list[at].Type)
			}
		}
	}
}

// spaced puts an empty line before each section but the first, above its comments.
func spaced(text []byte) []byte {
	lines := strings.SplitAfter(string(text), "\n")
	var out []string
	for i, line := range lines {
		top := line != "" && line != "\n" && line[0] != ' ' && line[0] != '-'
		above := i > 0 && strings.HasPrefix(lines[i-1], "#")
		if i > 0 && top && !above && lines[i-1] != "\n" {
			out = append(out, "\n")
		}
		out = append(out, line)
	}
	return []byte(strings.Join(out, ""))
}
