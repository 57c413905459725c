package policyfile

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"go.yaml.in/yaml/v4"
)

// plain converts a document into the plain data that a schema validates, independently of the parser: with the YAML library's
// core schema. It fails for values that JSON cannot hold.
func plain(text []byte) (any, bool) {
	var node yaml.Node
	if json.Valid(text) {
		var value any
		return value, json.Unmarshal(text, &value) == nil
	}
	if err := yaml.Load(text, &node, yaml.WithUniqueKeys(false), yaml.WithV4Defaults(), yaml.WithSingleDocument()); err != nil {
		return nil, false
	}
	value, err := plainNode(&node, 0)
	return value, err == nil
}

var errNotJSON = errors.New("not JSON")

func plainNode(n *yaml.Node, depth int) (any, error) {
	if depth > 20 {
		return nil, nil // a cycle: deeper values do not matter here
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return plainNode(n.Content[0], depth+1)
	case yaml.AliasNode:
		return plainNode(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			value, err := plainNode(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case yaml.MappingNode:
		object := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			value, err := plainNode(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			if key := n.Content[i]; key.ShortTag() != "!!merge" && key.Kind == yaml.ScalarNode {
				object[key.Value] = value
			}
		}
		return object, nil
	}
	return plainScalar(n)
}

func plainScalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		return b, n.Decode(&b)
	case "!!int", "!!float":
		var f float64
		if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errNotJSON
		}
		return json.Number(strconv.FormatFloat(f, 'g', -1, 64)), nil
	}
	return n.Value, nil
}
