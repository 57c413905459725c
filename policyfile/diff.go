package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tenetdev/tenet/internal/canonical"
)

// Change is a difference between two documents in one field.
type Change struct {
	// Path of the field as in faults, for example policies.user-service.GetUser.retry.max_attempts. A list counts as one field.
	Path string `json:"path"`
	// From is the value in the first document, as JSON with durations in seconds; nil if the document does not have the field.
	From json.RawMessage `json:"from,omitempty"`
	// To is the value in the second document, in the same form.
	To json.RawMessage `json:"to,omitempty"`
}

// Diff returns the fields in which b differs from a, by path. Layout, comments, the order of fields and the spelling of
// values do not count: documents without a difference have the same revision.
func Diff(a, b *Document) ([]Change, error) {
	if a == nil || b == nil {
		return nil, errors.New("policyfile: Diff: a document is nil")
	}
	from, err := a.leaves()
	if err != nil {
		return nil, err
	}
	to, err := b.leaves()
	if err != nil {
		return nil, err
	}
	paths := maps.Clone(from)
	maps.Copy(paths, to)
	changes := []Change{}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if !bytes.Equal(from[path], to[path]) {
			changes = append(changes, Change{Path: strings.ReplaceAll(path, between, "."), From: from[path], To: to[path]})
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return changes, nil
}

// between separates the names of a path. No name holds it, but names may hold dots.
const between = "\x00"

// leaves returns the canonical JSON of every field that is not an object with fields, by path.
func (d *Document) leaves() (map[string]json.RawMessage, error) {
	encoded, err := canonical.Marshal(d.root)
	if err != nil {
		return nil, fmt.Errorf("policyfile: diff: %w", err)
	}
	found := map[string]json.RawMessage{}
	return found, addLeaves(found, "", encoded)
}

func addLeaves(found map[string]json.RawMessage, path string, value json.RawMessage) error {
	var object map[string]json.RawMessage
	if value[0] == '{' {
		if err := json.Unmarshal(value, &object); err != nil {
			return fmt.Errorf("policyfile: diff: %s: %w", path, err)
		}
	}
	if len(object) == 0 {
		found[path] = value
		return nil
	}
	for name, inner := range object {
		if path != "" {
			name = path + between + name
		}
		if err := addLeaves(found, name, inner); err != nil {
			return err
		}
	}
	return nil
}
