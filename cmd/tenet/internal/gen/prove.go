package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenetdev/tenet/prove"
)

// proveRules writes a row of a table and a section per rule.
func proveRules(root string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("| code | severity | property |\n|---|---|---|\n")
	for _, r := range prove.Rules() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", r.Code, r.Code, r.Severity, r.Property)
	}
	for _, r := range prove.Rules() {
		text, err := os.ReadFile(filepath.Join(root, "prove", "testdata", "rules", r.Code+".yaml"))
		if err != nil {
			return nil, fmt.Errorf("read the examples of a rule: %w", err)
		}
		examples := strings.Split(string(text), "---\n")
		fmt.Fprintf(&b, "\n### %s\n\n%s %s\n", r.Code, r.Property, r.Why)
		if len(examples) > 2 {
			fmt.Fprintf(&b, "\nWith this call graph:\n\n```text\n%s```\n", examples[2])
		}
		example := "Violated"
		if r.Severity == prove.Note { // which is never violated
			example = "Worth a look"
		}
		fmt.Fprintf(&b, "\n"+example+":\n\n```yaml\n%s```\n\nRemedy: %s.\n\n```yaml\n%s```\n", examples[0], r.Remedy, examples[1])
	}
	return b.Bytes(), nil
}
