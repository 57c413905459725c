package policies

import (
	"os"
	"strings"
	"testing"

	"github.com/tenetdev/tenet/cmd/tenet/internal/cli"
)

// TestT3TheDocumentedMapIsThatOfTheDemo compares the map in docs/choosing-a-policy.md with that of the demo's document.
func TestT3TheDocumentedMapIsThatOfTheDemo(t *testing.T) {
	const root = "../../../../"
	m, err := mapOf(t.Context(), &cli.App{}, root+"examples/choosing/graph.yaml", "../demo/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(root + "docs/choosing-a-policy.md")
	if err != nil {
		t.Fatal(err)
	}
	var drawn strings.Builder
	writeMap(&drawn, m)
	if !strings.Contains(string(page), "```text\n"+drawn.String()+"```\n") {
		t.Errorf("docs/choosing-a-policy.md does not show this map:\n%s", drawn.String())
	}
}
