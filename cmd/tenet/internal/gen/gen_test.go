package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenetdev/tenet/policy"
)

const root = "../../../.."

// TestGeneratedFilesAreFresh fails when a type, comment or reason changed without "go generate ./...".
func TestGeneratedFilesAreFresh(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale; run go generate ./... (-generated +checked in):\n%s", path, diff)
		}
	}
}

func TestEveryFieldIsDocumented(t *testing.T) {
	comments, err := readComments(filepath.Join(root, "policy"), filepath.Join(root, "policyfile"))
	if err != nil {
		t.Fatal(err)
	}
	table := string(reference(comments))
	for _, o := range objects() {
		if comments[o.name()] == "" {
			t.Errorf("%s has no comment", o.name())
		}
	}
	for name, comment := range comments {
		if strings.Contains(name, ".") && comment == "" && !strings.HasPrefix(name, "Limits.") && !strings.HasPrefix(name, "Range.") {
			t.Errorf("%s has no comment", name)
		}
	}
	for _, want := range []string{"| `max_attempts` | integer | 3 | at least 1 |", "`policies.NAME`", "| `RETRY_KV_GET` |", "100ms …"} {
		if !strings.Contains(table, strings.TrimSuffix(want, "|")) {
			t.Errorf("the reference lacks %q", want)
		}
	}
}

func TestD6EveryReasonIsInTheReference(t *testing.T) {
	text := string(reasons())
	for _, r := range policy.Reasons() {
		if !strings.Contains(text, "| `"+string(r.Reason)+"` | "+r.Meaning) {
			t.Errorf("%s is missing", r.Reason)
		}
	}
}

func TestRunWritesEveryFile(t *testing.T) {
	into := t.TempDir()
	for _, dir := range []string{"policy", "policyfile", "simulate", "prove/testdata/rules", "docs"} {
		if err := os.CopyFS(filepath.Join(into, dir), os.DirFS(filepath.Join(root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{"policyfile/descriptions.json", "docs/policy-reference.md", "docs/reason-codes.md"}
	for _, path := range paths {
		stale := read(t, into, path) + "stale\n"
		if err := os.WriteFile(filepath.Join(into, path), []byte(stale), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(into); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if diff := cmp.Diff(read(t, root, path), read(t, into, path)); diff != "" {
			t.Errorf("%s was not written (-want +got):\n%s", path, diff)
		}
	}
}

func read(t *testing.T, root, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
