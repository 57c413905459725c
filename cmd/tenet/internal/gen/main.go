package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tenetdev/tenet/simulate"
)

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run writes the files below the repository's root.
func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// generate returns the content of every generated file by its path below the root.
func generate(root string) (map[string][]byte, error) {
	comments, err := readComments(filepath.Join(root, "policy"), filepath.Join(root, "policyfile"), filepath.Join(root, "simulate"))
	if err != nil {
		return nil, err
	}
	code, err := descriptions(comments)
	if err != nil {
		return nil, err
	}
	api, err := apiReference()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"docs/api.md":               api,
		"policyfile/fields_gen.go":  code,
		"docs/policy-reference.md":  reference(comments),
		"docs/prove.md":             provePage(),
		"docs/reason-codes.md":      reasons(),
		"docs/adapters.md":          adapterTable(),
		"docs/scenario.schema.json": simulate.Schema(),
	}, nil
}
