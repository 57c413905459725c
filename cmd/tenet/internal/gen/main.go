package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

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

// generate returns the content of every generated file by its path below the root. The introductions of pages are written by hand, and
// stay as they are.
func generate(root string) (map[string][]byte, error) {
	comments, err := readComments(filepath.Join(root, "policy"), filepath.Join(root, "policyfile"), filepath.Join(root, "simulate"))
	if err != nil {
		return nil, err
	}
	texts, err := descriptions(comments)
	if err != nil {
		return nil, err
	}
	api, err := apiReference()
	if err != nil {
		return nil, err
	}
	rules, err := proveRules(root)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"policyfile/descriptions.json": texts, "docs/scenario.schema.json": simulate.Schema()}
	for _, page := range []struct {
		path, from string // where the generated part begins
		part       []byte
	}{
		{"docs/api.md", "## ", api}, {"docs/policy-reference.md", "## ", reference(comments)}, {"docs/prove.md", "| code |", rules},
		{"docs/reason-codes.md", "\n## ", reasons()}, {"docs/adapters.md", "| adapter |", adapterTable()},
	} {
		text, err := os.ReadFile(filepath.Join(root, page.path))
		if err != nil {
			return nil, fmt.Errorf("read the introduction of a page: %w", err)
		}
		introduction, _, found := strings.Cut(string(text), page.from)
		if !found {
			return nil, fmt.Errorf("%s: the generated part begins with %q, which is missing", page.path, page.from)
		}
		files[page.path] = append([]byte(introduction), page.part...)
	}
	return files, nil
}
