package recording_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/audit"
	"github.com/tenetdev/tenet/cmd/tenet/internal/recording"
	"github.com/tenetdev/tenet/policy"
	"github.com/tenetdev/tenet/policyfile"
)

// TestA1AKeyThatADocumentNoLongerNamesIsRecorded: its policy changes to the defaults.
func TestA1AKeyThatADocumentNoLongerNamesIsRecorded(t *testing.T) {
	set := func(text string) *policy.Set {
		d, err := policyfile.Parse("policy.yaml", []byte("version: 1\n"+text), policyfile.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d.Set
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	sink, err := audit.OpenFile(path, audit.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(t.Context(), sink, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var changes recording.Changes
	kept := "policies: {kept.Same: {retry: {max_attempts: 3}}"
	changes.Follow(t.Context(), log, set(kept+", gone.Away: {retry: {max_attempts: 7}}}"), slog.Default())
	changes.Record(set(kept + "}"))
	if err := log.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(raw); strings.Count(text, `"policy_changed"`) != 1 || !strings.Contains(text, "gone.Away") || strings.Contains(text, "kept.Same") {
		t.Errorf("recorded:\n%s", text)
	}
}
