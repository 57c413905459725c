package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Limits on the input. They keep hostile input from costing more than a second and 100 MiB.
const (
	maxBytes = 1 << 20
	maxDepth = 64
	maxNodes = 100_000 // with aliases expanded
	// maxMarks bounds lines plus twice the marks of lists and objects in brackets, before the YAML scanner sees them: it
	// allocates about 0.5 KiB for each of the former and 2 KiB for each of the latter. It bounds the strings in quotes
	// too, which are among the values.
	maxMarks = 100_000
)

// load parses the YAML or JSON text into nodes. The node is nil where that fails; start is the remedy where the text holds no
// object.
func load(name string, data []byte, start string) (*yaml.Node, *faults) {
	if len(data) > maxBytes {
		c := newFaults(name, "")
		c.add(place{}, "", fmt.Sprintf("%d bytes, more than the %d that a document may have", len(data), maxBytes), "split the document")
		return nil, c
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	c := newFaults(name, string(data))
	if at := invalidUTF8(data); at >= 0 {
		before := data[:at]
		line := bytes.LastIndexByte(before, '\n')
		c.add(place{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[line+1:])}, "", "not UTF-8", "save the document as UTF-8")
		return nil, c
	}
	if marks := countMarks(data); marks > maxMarks {
		c.add(place{}, "", fmt.Sprintf("more than %d lines, strings and marks of lists and objects", maxMarks), "split the document")
		return nil, c
	}
	node := c.decode(readable(data), start)
	if node == nil {
		return nil, c
	}
	if problem := expand(node); problem != "" {
		c.add(placeOf(node), "", problem, "write fewer aliases, or split the document")
		return nil, c
	}
	return node, c
}

// decode reads the single document of data. It returns nil for one that it refuses, with a fault.
func (c *faults) decode(data []byte, start string) *yaml.Node {
	tooDeep := loaderlimits.DepthFunc(func(depth int, _ *loaderlimits.DepthContext) error {
		if depth > maxDepth {
			return fmt.Errorf("nested deeper than %d levels", maxDepth)
		}
		return nil
	})
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithV4Defaults(), yaml.WithPlugin(loaderlimits.New(tooDeep)))
	if err != nil { // not reached: the options are valid
		c.syntax(err)
		return nil
	}
	var document, next yaml.Node
	err = loader.Load(&document)
	if errors.Is(err, io.EOF) || err == nil && (len(document.Content) == 0 || isEmpty(document.Content[0])) {
		c.add(place{}, "", "the document is empty", start)
		return nil
	}
	if err == nil {
		if err = loader.Load(&next); err == nil {
			c.add(placeOf(&next), "", "more than one document", "keep one document per file")
			return nil
		}
	}
	if !errors.Is(err, io.EOF) {
		c.syntax(err)
		return nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		c.add(placeOf(root), "", "expected an object, found "+kindName(root), start)
		return nil
	}
	return root
}

func isEmpty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.ShortTag() == "!!null"
}

// syntax reports an error of the YAML parser.
func (c *faults) syntax(err error) {
	f := SyntaxFault(err)
	c.add(place{f.Line, f.Column}, "", "not valid YAML: "+f.Problem, "")
}

// SyntaxFault describes an error of the YAML parser in one line. Its Line is 0 if the error does not say where it is.
func SyntaxFault(err error) Fault {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return Fault{Problem: err.Error()}
	}
	mark := e.Mark
	if mark.Line == 0 {
		mark = e.ContextMark
	}
	problem := strings.Join(strings.Fields(e.Message), " ") // which may quote lines of the input
	if e.ContextMsg != "" {
		problem = e.ContextMsg + ": " + problem
	}
	return Fault{Line: mark.Line, Column: mark.Column, Problem: problem}
}

// expand walks the document with its aliases expanded, and reports the limit that it exceeds.
func expand(root *yaml.Node) (problem string) {
	nodes := 0
	var walk func(n *yaml.Node, depth int) string
	walk = func(n *yaml.Node, depth int) string {
		if nodes++; nodes > maxNodes {
			return fmt.Sprintf("more than %d values", maxNodes)
		}
		if depth > maxDepth {
			return fmt.Sprintf("nested deeper than %d levels", maxDepth)
		}
		if n.Kind == yaml.AliasNode {
			return walk(n.Alias, depth+1)
		}
		for _, child := range n.Content {
			if problem := walk(child, depth+1); problem != "" {
				return problem
			}
		}
		return ""
	}
	return walk(root, 0)
}

func countMarks(data []byte) int {
	n, quotes := 0, 0
	for _, b := range data {
		switch b {
		case '\n', '\r':
			n++
		case '"', '\'':
			quotes++
		case ',', '[', '{', '?', '&', '*', '!':
			n += 2
		}
	}
	return max(n, quotes/2)
}

// invalidUTF8 returns the index of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

var (
	version12 = regexp.MustCompile(`\A(?:(?:#.*)?\r?\n)*%YAML 1\.2`)
	// onlyJSON matches what JSON and YAML read differently, and escaped backslashes, so that no match begins with half of one.
	onlyJSON = regexp.MustCompile(`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|[\x{85}\x{fffe}\x{ffff}]`)
)

// readable rewrites what the YAML scanner refuses or changes: the directive of version 1.2, whose rules it follows; and in JSON, the
// two-part escapes of one character, and characters that YAML allows only in escapes.
func readable(data []byte) []byte {
	if at := version12.FindIndex(data); at != nil {
		data = bytes.Clone(data)
		data[at[1]-1] = '1'
	}
	if !onlyJSON.Match(data) || !json.Valid(data) {
		return data
	}
	return onlyJSON.ReplaceAllFunc(data, func(found []byte) []byte {
		switch r, _ := utf8.DecodeRune(found); {
		case r != '\\':
			return fmt.Appendf(nil, `\u%04X`, r)
		case len(found) == 2:
			return found
		}
		high, _ := strconv.ParseUint(string(found[2:6]), 16, 16)
		low, _ := strconv.ParseUint(string(found[8:12]), 16, 16)
		return fmt.Appendf(nil, `\U%08X`, utf16.DecodeRune(rune(high), rune(low)))
	})
}

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

// target returns the node that an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// kindName names the kind of a node in messages.
func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "null"
	case "!!bool":
		return "the boolean " + short(n.Value)
	case "!!int", "!!float":
		return "the number " + short(n.Value)
	}
	return "the string " + strconv.Quote(short(strings.ToValidUTF8(n.Value, "")))
}
