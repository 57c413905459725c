package tenet_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
	"github.com/tenetdev/tenet/simulate"
)

// page is one Markdown file.
type page struct {
	path   string
	text   string // the text without code blocks
	blocks []block
}

// block is a fenced block of code.
type block struct {
	at       string // file and line
	intro    string // text since the block before
	language string
	code     string
}

// pages reads every Markdown file at the root and below docs.
func pages(t *testing.T) []page {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d pages found: %v", len(paths), err)
	}
	list := make([]page, 0, len(paths))
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, cut(path, string(raw)))
	}
	return list
}

// cut separates the blocks of code from the surrounding text.
func cut(path, content string) page {
	p := page{path: path}
	var open *block
	var intro string
	for i, line := range strings.SplitAfter(content, "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &block{at: fmt.Sprintf("%s:%d", path, i+1), intro: intro, language: fence}
			intro = ""
		case isFence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.code += line
		default:
			p.text += line
			intro += line
		}
	}
	return p
}

func blocks(t *testing.T, language string) []block {
	t.Helper()
	var list []block
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.language == language {
				list = append(list, b)
			}
		}
	}
	if len(list) == 0 {
		t.Fatalf("no block of %s found", language)
	}
	return list
}

// TestDocsGoCompiles vets every block of Go in a separate module, as a reader would use it. A block without a package clause
// is the body of a function with a ctx, and the test adds its imports. These blocks are files of one package, which is vetted at once.
func TestDocsGoCompiles(t *testing.T) {
	dir := t.TempDir()
	writeModule(t, dir)
	public := slices.DeleteFunc(packages(t), func(p goPackage) bool {
		return strings.Contains(p.ImportPath, "/internal/") || strings.Contains(p.ImportPath, "/cmd/") || strings.Contains(p.ImportPath, "/examples/")
	})
	places := map[string]string{}
	for i, b := range blocks(t, "go") {
		name := fmt.Sprintf("fragments/block%d.go", i)
		if strings.HasPrefix(b.code, "package ") {
			name = fmt.Sprintf("program%d/main.go", i)
		} else {
			b.code = complete(b.code, public)
		}
		places[name] = b.at
		write(t, filepath.Join(dir, name), b.code)
	}
	vet := exec.Command("go", "vet", "./...")
	vet.Dir = dir
	if out, err := vet.CombinedOutput(); err != nil {
		text := string(out)
		for name, at := range places {
			text = strings.ReplaceAll(text, name, at+" → "+name)
		}
		t.Errorf("go vet: %v\n%s", err, text)
	}
}

// writeModule makes a module in a workspace with all modules of this repository.
func writeModule(t *testing.T, dir string) {
	t.Helper()
	write(t, filepath.Join(dir, "go.mod"), "module docs\n\ngo 1.26.0\n")
	raw, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	work := regexp.MustCompile(`(?m)(^\t| => )\.`).ReplaceAllString(string(raw), "${1}"+root+"/.")
	write(t, filepath.Join(dir, "go.work"), work+"\nuse .\n")
	if raw, err = os.ReadFile("go.work.sum"); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.work.sum"), string(raw))
}

var (
	selector = regexp.MustCompile(`\b([a-z]+)\.[A-Z]`)
	variable = regexp.MustCompile(`\b([a-z]+)(?:, [a-z]+)* :=`)
	// importable lists the packages that fragments may use without an import.
	importable = map[string]string{
		"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "log": "log", "slog": "log/slog",
		"os": "os", "signal": "os/signal", "syscall": "syscall", "bytes": "bytes", "strings": "strings", "time": "time", "tenet": module,
		"pgx": "github.com/jackc/pgx/v5", "pgxpool": "github.com/jackc/pgx/v5/pgxpool",
		"grpc": "google.golang.org/grpc", "credentials": "google.golang.org/grpc/credentials",
	}
)

func complete(code string, public []goPackage) string {
	paths := maps.Clone(importable)
	for _, p := range public {
		paths[p.Name] = p.ImportPath
	}
	for _, found := range variable.FindAllStringSubmatch(code, -1) {
		delete(paths, found[1])
	}
	imports := map[string]bool{"context": true}
	for _, found := range selector.FindAllStringSubmatch(code, -1) {
		if path, ok := paths[found[1]]; ok {
			imports[path] = true
		}
	}
	var b strings.Builder
	b.WriteString("package fragments\n\nimport (\n")
	for _, path := range slices.Sorted(maps.Keys(imports)) {
		fmt.Fprintf(&b, "\t%q\n", path)
	}
	fmt.Fprintf(&b, ")\n\nfunc _(ctx context.Context) {\n%s}\n", code)
	return b.String()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDocsDocumentsAreAccepted checks that every block of YAML is a scenario, or a complete policy document without faults or warnings.
func TestDocsDocumentsAreAccepted(t *testing.T) {
	for _, b := range blocks(t, "yaml") {
		if strings.Contains(b.code, "\nservices:") {
			if _, err := simulate.Parse(b.at, []byte(b.code)); err != nil {
				t.Errorf("%v", err)
			}
			continue
		}
		document, err := policyfile.Parse(b.at, []byte(b.code), policyfile.Options{})
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		for _, warning := range document.Warnings {
			t.Errorf("%v", warning)
		}
	}
}

// TestDocsPoliciesAreAccepted checks that every block of JSON is a policy as a control plane would return it.
func TestDocsPoliciesAreAccepted(t *testing.T) {
	for _, b := range blocks(t, "json") {
		var p policy.Policy
		if err := json.Unmarshal([]byte(b.code), &p); err != nil {
			t.Errorf("%s: %v", b.at, err)
			continue
		}
		if err := p.Validate(policy.CallLimits()); err != nil {
			t.Errorf("%s: %v", b.at, err)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	target  = regexp.MustCompile(`(?m)^([a-z]+):`)
	making  = regexp.MustCompile("(?m)(?:^|`)make ([a-z]+)")
	running = regexp.MustCompile(`go run (\./[a-z/]+)`)
)

// TestDocsLinksAreValid checks that relative links name existing files and headings.
func TestDocsLinksAreValid(t *testing.T) {
	headings := map[string][]string{} // by path
	for _, p := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(p.text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			path := p.path
			if file != "" {
				path = filepath.Join(filepath.Dir(p.path), file)
			}
			raw, err := os.ReadFile(path)
			if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s links to %s: %v", p.path, found[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			if headings[path] == nil {
				headings[path] = anchors(cut(path, string(raw)).text)
			}
			if !slices.Contains(headings[path], anchor) {
				t.Errorf("%s links to %s: no such heading", p.path, found[1])
			}
		}
	}
}

// anchors returns GitHub's names of the headings.
func anchors(text string) []string {
	var list []string
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		list = append(list, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
				return r
			}
			return -1
		}, strings.ToLower(found[1])))
	}
	return list
}

// TestDocsCommandsExist checks the make targets and the programs that the pages mention.
func TestDocsCommandsExist(t *testing.T) {
	raw, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, found := range target.FindAllStringSubmatch(string(raw), -1) {
		targets = append(targets, found[1])
	}
	for _, p := range pages(t) {
		whole, err := os.ReadFile(p.path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range making.FindAllStringSubmatch(string(whole), -1) {
			if !slices.Contains(targets, found[1]) {
				t.Errorf("%s says make %s; the Makefile has %v", p.path, found[1], targets)
			}
		}
		for _, found := range running.FindAllStringSubmatch(string(whole), -1) {
			if _, err := os.Stat(found[1]); err != nil {
				t.Errorf("%s says %s: %v", p.path, found[0], err)
			}
		}
	}
}
